"""What the machine can do at most, measured beside the libraries: memory copied, multiply-adds.

A row that says what its call must move and compute has the machine as one more side: the time
that the call would take if that were all. It is measured in turn with the libraries, so that a
machine that slows down lowers its limit too.
"""

import ctypes
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

from benchmarks.row import Limit
from benchmarks.rows import ROWS

COPIED = 40_000_000  # bytes in each of two buffers: more than the caches hold
CHAINS = 12  # of multiply-adds: enough to hide the time that one takes, few enough for registers
ROUNDS = 1_000_000


def lanes() -> int:
    """How many float32 one vector register holds."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx2") else 4


def multiply_add_loop() -> ir.Module:
    """`float chains(float x)`: ROUNDS times CHAINS independent multiply-adds on vectors."""
    module = ir.Module()
    vector = ir.VectorType(ir.FloatType(), lanes())
    kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()])
    function = ir.Function(module, kind, "chains")
    fma_kind = ir.FunctionType(vector, [vector] * 3)
    fma = ir.Function(module, fma_kind, f"llvm.fma.v{lanes()}f32")
    entry, loop, end = map(function.append_basic_block, ("entry", "loop", "end"))
    builder = ir.IRBuilder(entry)
    x = ir.Constant(vector, ir.Undefined)
    for lane in range(lanes()):
        x = builder.insert_element(x, function.args[0], ir.Constant(ir.IntType(32), lane))
    builder.branch(loop)
    builder.position_at_end(loop)
    count = builder.phi(ir.IntType(64))
    count.add_incoming(ir.Constant(ir.IntType(64), 0), entry)
    sums = [builder.phi(vector) for _ in range(CHAINS)]
    later = [builder.call(fma, [one, x, x]) for one in sums]
    for one, next_one in zip(sums, later, strict=True):
        one.add_incoming(x, entry)
        one.add_incoming(next_one, loop)
    after = builder.add(count, ir.Constant(ir.IntType(64), 1))
    count.add_incoming(after, loop)
    more = builder.icmp_unsigned("<", after, ir.Constant(ir.IntType(64), ROUNDS))
    builder.cbranch(more, loop, end)
    builder.position_at_end(end)
    total = functools.reduce(builder.fadd, later)
    builder.ret(builder.extract_element(total, ir.Constant(ir.IntType(32), 0)))
    return module


@functools.cache
def compiled() -> tuple[object, Callable[[float], float]]:
    """The engine, which owns the code, and the loop; ctypes lets other threads run meanwhile."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(str(multiply_add_loop()))
    module.verify()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    address = engine.get_function_address("chains")
    return engine, ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(address)


@functools.cache
def threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads())


@functools.cache
def buffers() -> list[tuple[np.ndarray, np.ndarray]]:
    """For each thread, its part of a source and of a target, both touched before."""
    source, target = np.zeros(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    parts = np.array_split(source, threads()), np.array_split(target, threads())
    return list(zip(*parts, strict=True))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def seconds_per_byte() -> float:
    """Of a copy by all threads, both the bytes read and those written counted."""

    def copy(part: tuple[np.ndarray, np.ndarray]) -> None:
        np.copyto(part[1], part[0])

    return min(timed(lambda: list(pool().map(copy, buffers()))) for _ in range(5)) / (2 * COPIED)


def seconds_per_multiply_add() -> float:
    """Of float32 multiply-adds in registers, by all threads at once."""
    chains = compiled()[1]
    work = threads() * ROUNDS * CHAINS * lanes()
    return min(timed(lambda: list(pool().map(chains, [0.5] * threads()))) for _ in range(5)) / work


def best(limit: Limit) -> float:
    """The seconds that a call takes at least: the longer of its two parts."""
    moving = limit.bytes * seconds_per_byte() if limit.bytes else 0.0
    computing = limit.multiply_adds * seconds_per_multiply_add() if limit.multiply_adds else 0.0
    return max(moving, computing)


class LimitCase:
    """The machine as a side of a row: the time that what the row says it needs would take."""

    def __init__(self, row_name: str) -> None:
        limit = ROWS[row_name].limit
        if limit is None:
            raise ValueError(f"row {row_name} does not say what it needs of the machine")
        self.limit = limit

    def prepare(self, batch_seconds: float) -> None:
        """Nothing to choose: what is measured does not depend on the row."""

    def time(self) -> float:
        return best(self.limit)
