"""The functions that convolutions become, for other machines: made and read, not run."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from covector.backends.cpu.assemble import assembly, module_text
from covector.backends.cpu.library.convolution import Geometry, rows_text, taps_text
from covector.backends.cpu.library.tiles import Axis, Tile, collapsed
from tests.backends.test_targets import TARGETS


@pytest.fixture(scope="module", autouse=True)
def all_machines() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


GEOMETRY = Geometry("float32", 2, (18, 18), 1, 24, (3, 3), (16, 16), 50, (1, 1), (1, 1))
#: How each machine multiplies and adds.
FUSED = {"avx512": "vfmadd", "avx2": "vfmadd", "sse": "mulps", "arm": "fmla", "apple": "fmla",
         "windows": "vfmadd"}  # fmt: skip


@pytest.mark.parametrize("machine", TARGETS)
def test_sums_are_in_registers(machine: str) -> None:
    target = TARGETS[machine]
    functions, declared = rows_text("f", GEOMETRY, target)
    text = assembly(module_text(target, functions, declared), target)
    assert FUSED[machine] in text
    if machine == "avx512":
        assert "zmm31" not in text or text.count("(%rsp), %zmm") < 8  # nothing is spilled in a loop


@pytest.mark.parametrize("machine", ["avx512", "sse", "arm"])
def test_sums_over_places_are_valid_code(machine: str) -> None:
    target = TARGETS[machine]
    functions, declared = taps_text("f", GEOMETRY, target)
    assert "f.total" in assembly(module_text(target, functions, declared), target)


def test_tiles_cover_all_columns() -> None:
    for machine, target in TARGETS.items():
        for columns in (1, 7, 8, 9, 16, 17, 33, 64, 100, 300):
            tile = Tile(target, "float32", columns, 1000)
            last = tile.last * tile.lanes
            assert tile.panels * tile.width + tile.rest == columns, machine
            assert 0 <= last - tile.rest < tile.lanes
            registers = 32 if machine in ("avx512", "arm", "apple") else 16
            assert (tile.rows + 1) * tile.vectors < registers + 1


def test_loops_over_neighbouring_places_become_one() -> None:
    assert collapsed([Axis(2, 60), Axis(3, 20), Axis(20, 1)]) == [Axis(120, 1)]
    assert collapsed([Axis(2, 70), Axis(1, 9), Axis(3, 20)]) == [Axis(2, 70), Axis(3, 20)]
    assert collapsed([Axis(1, 5)]) == []
