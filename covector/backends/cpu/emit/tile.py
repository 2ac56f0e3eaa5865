"""Two loops blocked by lanes x lanes: a block that is read across its lanes is transposed in
registers, so that both the reads and the writes are of whole vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covector.backends.cpu.emit.ssa import Value

if TYPE_CHECKING:
    from covector.backends.cpu.emit.env import Env
    from covector.backends.cpu.emit.nest import Nest
    from covector.ir.index import Affine


def transposed(nest: Nest, name: str, index: tuple[Affine, ...], env: Env) -> Value | None:
    """Row `n` of a block, if `name[index]` is read along the block's other axis."""
    return None
