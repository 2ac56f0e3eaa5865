"""Random programs of the test ops: small and odd sizes, 0 and 1 too, up to three outputs."""

from __future__ import annotations

import random

import numpy as np
from toys import (
    ArgMax,
    Build,
    Cast,
    Concatenate,
    CumSum,
    Iota,
    Matmul,
    Pad,
    Reshape,
    Reverse,
    ScatterAdd,
    Slice,
    Sort,
    Take,
    Transpose,
    UpdateSlice,
    oracle,
    random_inputs,
)

from covector.compiler.loops.verify import verify
from covector.compiler.plan import plan
from covector.compiler.run import run

LIBRARY = {
    "matmul": lambda _, x, y: [x @ y],
    "sort": lambda _, x: [np.sort(x)],
}


def random_program(seed: int):
    """(a Jaxpr, numbers of donated arguments)."""
    rng = random.Random(seed)
    b = Build()
    sizes = rng.choice(
        [(1, 2, 3, 5, 7), (2, 3, 8, 9, 13), (0, 1, 2, 5), (1, 4, 17), (6, 6, 6, 12), (3, 18, 33)]
    )
    rows, columns = rng.choice(sizes), rng.choice(sizes)
    values = [b.input(rows, columns), b.input(rows, columns), b.input(columns), b.input(rows)]
    if rng.random() < 0.3:
        values.append(b.input(rng.choice(sizes), rows, columns))
    places = b.input(rng.choice(sizes) or 1, dtype="int32")
    scalar = b.input(dtype="int32")
    steps = [
        binary, binary, binary, unary, unary, transpose, cut, pad, join, reduce, reduce,
        broadcast, broadcast, choose, reshape, reverse, iota, take, scatter, write, running,
        product, sort, best, convert, rows_of,
    ]  # fmt: skip
    for _ in range(rng.randint(2, 14)):
        step = rng.choice(steps)
        made = step(b, rng, values, places, scalar)
        if made is not None and np.prod(made.aval.shape) <= 3000:
            values.append(made)
    inputs = set(b.invars)
    made = [v for v in values if v not in inputs] or [b.add(values[0], 1.0)]
    outputs = [made[-1]]
    while rng.random() < 0.4 and len(outputs) < 3:
        outputs.append(rng.choice(made if rng.random() < 0.9 else values))
    jaxpr = b.jaxpr(*outputs)
    donated = [k for k in range(len(b.invars)) if rng.random() < 0.3]
    return jaxpr, donated


def _pick(rng, values, rank=None, some=False):
    fits = [v for v in values[-8:] + values[:4] if rank is None or v.aval.ndim == rank]
    fits = [v for v in fits if not some or v.aval.size]
    return rng.choice(fits) if fits else None


def binary(b, rng, values, *_):
    x = _pick(rng, values)
    y = rng.choice([v for v in values if v.aval.shape == x.aval.shape])
    if rng.random() < 0.2:
        y = 0.5
    return getattr(b, rng.choice(["add", "sub", "mul", "max"]))(x, y)


def unary(b, rng, values, *_):
    x = _pick(rng, values)
    return rng.choice([b.sin, b.tanh, lambda v: b.exp(b.sin(v)), lambda v: b.mul(v, 0.5)])(x)


def transpose(b, rng, values, *_):
    x = _pick(rng, values)
    return b(Transpose(tuple(rng.sample(range(x.aval.ndim), x.aval.ndim))), x)


def cut(b, rng, values, *_):
    x = _pick(rng, values)
    spans = []
    for n in x.aval.shape:
        low = rng.randint(0, min(2, n))
        spans.append((low, rng.randint(low, n), rng.choice([1, 1, 1, 2, 3])))
    return b.cut(x, *spans) if spans else None


def pad(b, rng, values, *_):
    x = _pick(rng, values)
    if not x.aval.ndim:
        return None
    low, high = (tuple(rng.randint(0, 2) for _ in x.aval.shape) for _ in "lh")
    return b(Pad(low, high, 0.25), x)


def join(b, rng, values, *_):
    x = _pick(rng, values)
    if not x.aval.ndim:
        return None
    axis = rng.randrange(x.aval.ndim)
    same = [v for v in values if v.aval.ndim == x.aval.ndim and _off(v, axis) == _off(x, axis)]
    return b(Concatenate(axis), x, *[rng.choice(same) for _ in range(rng.randint(1, 3))])


def _off(v, axis):
    return v.aval.shape[:axis] + v.aval.shape[axis + 1 :]


def reduce(b, rng, values, *_):
    x = _pick(rng, values)
    axes = tuple(sorted(rng.sample(range(x.aval.ndim), rng.randint(0, x.aval.ndim))))
    return b.top(x, *axes) if rng.random() < 0.4 else b.mul(b.sum(x, *axes), 0.1)


def broadcast(b, rng, values, *_):
    x, y = _pick(rng, values), _pick(rng, values)
    if x.aval.ndim > y.aval.ndim:
        x, y = y, x
    dims = sorted(rng.sample(range(y.aval.ndim), x.aval.ndim))
    if any(n not in (1, y.aval.shape[d]) for n, d in zip(x.aval.shape, dims, strict=True)):
        return None
    return getattr(b, rng.choice(["add", "sub", "mul"]))(y, b.full(x, y, *dims))


def rows_of(b, rng, values, *_):
    """A softmax, or the distance from a mean, along one axis."""
    x = _pick(rng, values, some=True)
    if x is None or not x.aval.ndim:
        return None
    axis = rng.randrange(x.aval.ndim)
    rest = tuple(d for d in range(x.aval.ndim) if d != axis)
    e = b.exp(b.sub(x, b.full(b.top(x, axis), x, *rest)))
    total = b.full(b.sum(e, axis), x, *rest)
    return b.div(e, total) if rng.random() < 0.7 else b.sub(x, b.mul(total, 0.1))


def choose(b, rng, values, *_):
    x = _pick(rng, values)
    y = rng.choice([v for v in values if v.aval.shape == x.aval.shape])
    return b.select(b.lt(x, y), y, rng.choice([x, b.sin(x)]))


def reshape(b, rng, values, *_):
    x = _pick(rng, values)
    n = x.aval.size
    if rng.random() < 0.3 or not n:
        return b(Reshape((n,)), x) if n else None
    factors = [m for m in range(1, n + 1) if n % m == 0]
    m = rng.choice(factors)
    shape = (m, n // m)
    if rng.random() < 0.3:
        k = rng.choice([k for k in factors if m % k == 0])
        shape = (k, m // k, n // m)
    return b(Reshape(shape), x)


def reverse(b, rng, values, *_):
    x = _pick(rng, values)
    return b(Reverse(tuple(d for d in range(x.aval.ndim) if rng.random() < 0.5)), x)


def iota(b, rng, values, *_):
    x = _pick(rng, values)
    if not x.aval.ndim:
        return None
    axis = rng.randrange(x.aval.ndim)
    return b.mul(b(Iota(x.aval.shape, axis, "float32")), b.sin(x))


def take(b, rng, values, places, _):
    x = _pick(rng, values, some=True)
    return b(Take(), x, places) if x is not None and x.aval.ndim and x.aval.shape[0] else None


def scatter(b, rng, values, places, _):
    x = _pick(rng, values, some=True)
    if x is None or not x.aval.ndim or not x.aval.shape[0]:
        return None
    shape = places.aval.shape + x.aval.shape[1:]
    updates = [v for v in values if v.aval.shape == shape] or [b(Take(), x, places)]
    return b(ScatterAdd(), x, places, rng.choice(updates))


def write(b, rng, values, _, scalar):
    x = _pick(rng, values, some=True)
    if x is None or not x.aval.ndim or not x.aval.shape[0]:
        return None
    rows = rng.randint(1, x.aval.shape[0])
    part = b(Slice((0,) * x.aval.ndim, (rows, *x.aval.shape[1:]), (1,) * x.aval.ndim), x)
    return b(UpdateSlice(), rng.choice([x, b.sin(x)]), b.tanh(part), scalar)


def running(b, rng, values, *_):
    x = _pick(rng, values)
    if not x.aval.ndim:
        return None
    return b.mul(b(CumSum(rng.randrange(x.aval.ndim), rng.random() < 0.5), x), 0.1)


def product(b, rng, values, *_):
    x = _pick(rng, values, 2)
    if x is None:
        return None
    fits = [v for v in values if v.aval.ndim == 2 and v.aval.shape[0] == x.aval.shape[1]]
    return b.mul(b(Matmul(rng.choice([0, 10**9])), x, rng.choice(fits)), 0.1) if fits else None


def sort(b, rng, values, *_):
    x = _pick(rng, values)
    return b(Sort(), x) if x.aval.ndim and rng.random() < 0.5 else None


def best(b, rng, values, *_):
    x = _pick(rng, values, some=True)
    if x is None or not x.aval.ndim:
        return None
    return b(Cast("float32"), b(ArgMax(rng.randrange(x.aval.ndim)), x))


def convert(b, rng, values, *_):
    return b(Cast("float32"), b(Cast("bfloat16"), _pick(rng, values)))


def check(seed: int, lanes: bool = True) -> int:
    """Plan program `seed`, verify its kernels, run it, compare; the number of its steps."""
    jaxpr, donated = random_program(seed)
    inputs = random_inputs(jaxpr, seed)
    wanted = oracle(jaxpr, inputs)
    program = plan(jaxpr, donated)
    for kernel in program.kernels:
        verify(kernel)
    got = run(program, inputs, LIBRARY, lanes=lanes)
    for out, want in zip(got, wanted, strict=True):
        compare(out.reshape(want.shape), want, f"seed {seed}\n{program}")
    return len(program.steps)


def compare(got, want, what):
    assert got.dtype == want.dtype, what
    got, want = got.astype(float), want.astype(float)
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        gap = np.where(same, 0, np.nan_to_num(abs(got - want) / (1 + abs(want)), nan=np.inf))
    worst = gap.max() if gap.size else 0.0
    assert worst < 2e-3, f"{worst}: {what}"
