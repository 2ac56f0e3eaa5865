"""Normal forms of single operations: kernels whose sizes are run-time values.

`normal_form(op, avals)` gives a key that many shapes share, the numbers that make the difference,
and the kernel, made on demand: so a new shape compiles nothing.

    pointwise     every array as one axis of n elements, scalars as they are
    broadcasting  pointwise over up to a few axes, each operand with its own strides (0: repeated)
    view          a copy by strides and an offset; neighbouring axes merged; contiguous, repeated or
                  strided along the last axis; or a transpose of tiles
    reduction     (outer, reduced, inner); running reductions alike
    indexing      gather, scatter, dynamic slices: sizes by axis
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from covector.compiler import loops
from covector.compiler.loops.address import linear
from covector.compiler.loops.domain import Refusal, domain_of
from covector.compiler.loops.graph import Graph, Node, Value, element_type
from covector.compiler.loops.lower import Lowering
from covector.compiler.loops.program import Buffer, For, Kernel, Statement, Store
from covector.ir.avals import ShapedArray
from covector.ir.index import ZERO, Affine, affine
from covector.ir.op import Op, has_rule
from covector.ir.scalar import load
from covector.ops.cumulative import Cumulative
from covector.ops.families import Pointwise
from covector.ops.reduce import ArgExtremum, Reduction

Shape = tuple[Affine, ...]
#: Rows shorter than this are another kernel: one row a lane.
SHORT = 8
#: Axes of a strided kernel beyond which a program is specialised instead.
MAX_RANK = 5


@final
class NormalForm:
    """One operation on arrays of some shapes, as a kernel that other shapes share.

    key: equal for operations that one kernel serves.  symbols: the numbers it is called with.
    make: the kernel; its buffers are the arguments in order, then the results.  base: which
    argument must be copied into the result before (None: none).
    """

    __slots__ = ("base", "key", "make", "symbols")

    def __init__(
        self,
        key: Any,
        symbols: Sequence[int],
        make: Callable[[], Kernel],
        base: int | None = None,
    ) -> None:
        self.key, self.symbols, self.make, self.base = key, tuple(symbols), make, base


def normal_form(op: Op, avals: Sequence[ShapedArray]) -> NormalForm | None:
    """The normal form of `op`, or None if each shape needs a program of its own."""
    if op.effects or any(a.size == 0 for a in avals) or has_rule(op, "library"):
        return None
    if isinstance(op, Pointwise) and not op.multiple_results:
        return _pointwise(op, avals)
    if isinstance(op, (Reduction, ArgExtremum)):
        return _reduction(op, avals)
    if isinstance(op, Cumulative):
        return _running(op, avals)
    if op.name in INDEXING:
        return _indexing(op, avals)
    if has_rule(op, "kernel") and len(avals) == 1 and not op.multiple_results:
        return _view(op, avals[0])
    return None


# Pointwise


def _pointwise(op: Op, avals: Sequence[ShapedArray]) -> NormalForm:
    scalar = tuple(not a.ndim for a in avals)
    types = tuple(element_type(a.dtype) for a in avals)
    size = max((a.size for a in avals), default=1)
    line, point = (affine("n"),), ()
    out = element_type(op.result(*avals).dtype)

    def make() -> Kernel:
        shapes = [point if s else line for s in scalar]
        return plan_symbolic(op, shapes, types, [point if all(scalar) else line], [out], ["n"])

    return NormalForm(("pointwise", op, types, scalar), (size,), make)


def broadcasting(op: Op, avals: Sequence[ShapedArray]) -> NormalForm | None:
    """A pointwise `op` of operands that broadcast by NumPy's rule, without copies of them."""
    rank = max(a.ndim for a in avals)
    shapes = [(1,) * (rank - a.ndim) + a.shape for a in avals]
    out = tuple(max(ns, key=lambda n: (n != 1, n)) for ns in zip(*shapes, strict=True))
    if any(n not in (1, m) for s in shapes for n, m in zip(s, out, strict=True)) or 0 in out:
        return None
    strides = [
        tuple(0 if n == 1 else step for n, step in zip(s, _steps(s), strict=True)) for s in shapes
    ]
    extents, columns = merged_axes(out, strides)
    if len(extents) > MAX_RANK:
        return None
    strides = [tuple(c[k] for c in columns) for k in range(len(shapes))]
    types = tuple(element_type(a.dtype) for a in avals)
    full = [ShapedArray(out, a.dtype, a.weak_type) for a in avals]
    result = element_type(op.result(*full).dtype)
    kinds = tuple(
        tuple(_kind(s, d == len(extents) - 1) for d, s in enumerate(row)) for row in strides
    )
    free = [s for row, kind in zip(strides, kinds, strict=True)
            for s, k in zip(row, kind, strict=True) if k == "s"]  # fmt: skip

    def make() -> Kernel:
        return _broadcasting_kernel(op, types, result, len(extents), kinds)

    return NormalForm(("broadcasting", op, types, kinds), (*extents, *free), make)


def _kind(stride: int, last: bool) -> str:
    """'0' and '1' are known to the kernel; other strides are run-time values."""
    return "0" if stride == 0 else "1" if last and stride == 1 else "s"


def _broadcasting_kernel(
    op: Op, types: Sequence[str], result: str, rank: int, kinds: Sequence[Sequence[str]]
) -> Kernel:
    shape = tuple(affine(f"n{d}") for d in range(rank))
    names = [str(n) for n in shape]
    strides = []
    for k, row in enumerate(kinds):
        steps = []
        for d, kind in enumerate(row):
            if kind == "s":
                names.append(f"s{k}_{d}")
            steps.append(affine(f"s{k}_{d}") if kind == "s" else Affine(int(kind)))
        strides.append(tuple(steps))
    kernel = plan_symbolic(op, [shape] * len(types), types, [shape], [result], names)
    buffers = list(kernel.buffers.values())
    for b, s in zip(buffers, strides, strict=False):
        b.strides = s
    return loops.lanes.choose_lanes(
        Kernel(kernel.name, kernel.buffers, _serial(kernel.body), kernel.symbols)
    )


def _serial(body: Sequence[Statement]) -> list[Statement]:
    """The loops with no lanes chosen yet."""
    return [For(s.axis, s.low, s.high, _serial(s.body)) if isinstance(s, For) else s for s in body]


# Views


def _view(op: Op, aval: ShapedArray) -> NormalForm | None:
    """If every element of the result is an element of the argument at a strided place."""
    out = op.result(aval)
    if not out.size:
        return None
    found = strides_of_view(op, aval)
    if found is None:
        return None
    strides, offset = found
    extents, columns = merged_axes(out.shape, [strides])
    steps = [c[0] for c in columns]
    if len(extents) > MAX_RANK:
        return None
    dtype = _MOVED.get(aval.itemsize, element_type(aval.dtype))
    kinds = [_kind(s, d == len(extents) - 1) for d, s in enumerate(steps)]
    tile = None  # the axis that is contiguous in the argument, where the last one is not
    if extents and steps[-1] not in (0, 1) and 1 in steps:
        tile = steps.index(1)
        kinds[tile] = "1"
    free = [s for s, k in zip(steps, kinds, strict=True) if k == "s"]

    def make() -> Kernel:
        return _view_kernel(dtype, kinds, tile)

    return NormalForm(("view", dtype, tuple(kinds), tile), (offset, *extents, *free), make)


#: Moving elements needs their size alone.
_MOVED = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def strides_of_view(op: Op, aval: ShapedArray) -> tuple[tuple[int, ...], int] | None:
    """(a stride for each axis of the result, offset) in elements of the dense argument."""
    out = op.result(aval)
    dtype = element_type(aval.dtype)
    graph = Graph()
    x = graph.input("x", tuple(map(Affine, aval.shape)), dtype)
    shape = tuple(map(Affine, out.shape))
    node = graph.apply(op, [x], [shape], [element_type(out.dtype)])
    domain = domain_of(shape)
    low = Lowering(domain, lambda v: v.node is None)
    try:
        element = low.say(node, domain.index)[0]
    except Refusal:
        return None
    if element.op != "load" or element.extra[0] is not x:
        return None
    address = linear(element.extra[1], x.shape)
    if address is None or any(not isinstance(a, str) for a, _ in address.terms):
        return None
    steps = dict(address.terms)
    return tuple(steps.get(f"i{d}", 0) for d in range(len(shape))), address.const


def _view_kernel(dtype: str, kinds: Sequence[str], tile: int | None) -> Kernel:
    rank = len(kinds)
    shape = tuple(affine(f"n{d}") for d in range(rank))
    steps = tuple(affine(f"s{d}") if k == "s" else Affine(int(k)) for d, k in enumerate(kinds))
    symbols = [
        "o",
        *map(str, shape),
        *(str(s) for s, k in zip(steps, kinds, strict=True) if k == "s"),
    ]
    source = Buffer("x0", (affine("o") + 1, *shape), dtype, "in", (Affine(1), *steps))
    target = Buffer("y0", shape, dtype, "out")
    index = tuple(affine(f"i{d}") for d in range(rank))
    body: list[Statement] = [Store("y0", index, load("x0", (affine("o"), *index), dtype))]
    order = [d for d in range(rank) if d != tile]
    if tile is not None:
        order.insert(rank - 2, tile)
    for d in reversed(order):
        mode = "vector" if d == rank - 1 and tile is None else "serial"
        if d == tile:
            mode = "tile"
        body = [For(f"i{d}", ZERO, shape[d], body, mode)]
    return Kernel("view", {"x0": source, "y0": target}, body, tuple(symbols))


def merged_axes(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Extents and, for each axis, the strides of every operand, with axes of extent 1 left out and
    neighbours merged where all operands step through them as through one."""
    extents: list[int] = []
    columns: list[tuple[int, ...]] = []
    for n, *column in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if columns and all(a == b * n for a, b in zip(columns[-1], column, strict=True)):
            extents[-1] *= n
            columns[-1] = tuple(column)
        else:
            extents.append(n)
            columns.append(tuple(column))
    return extents, columns


def _steps(shape: Sequence[int]) -> list[int]:
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return out[::-1]


# Reductions


def _reduction(op: Op, avals: Sequence[ShapedArray]) -> NormalForm | None:
    (x,) = avals
    axes: tuple[int, ...] = tuple(sorted(op.params["axes"]))
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return None
    outer, reduced, inner = _three(x.shape, axes[0], axes[-1] + 1)
    return _along(op.with_params(axes=(1,)), x, (outer, reduced, inner), op.result(x), False)


def _running(op: Op, avals: Sequence[ShapedArray]) -> NormalForm | None:
    (x,) = avals
    axis: int = op.params["axis"]
    return _along(op.with_params(axis=1), x, _three(x.shape, axis, axis + 1), op.result(x), True)


def _three(shape: Sequence[int], first: int, last: int) -> tuple[int, int, int]:
    return _size(shape[:first]), _size(shape[first:last]), _size(shape[last:])


def _along(
    op: Op, x: ShapedArray, sizes: tuple[int, int, int], out: ShapedArray, keeps: bool
) -> NormalForm:
    """`op` along the middle of three axes; axes of extent 1 are left out."""
    outer, middle, inner = sizes
    names = ["p" if outer > 1 else None, "k", "q" if inner > 1 else None]
    short = middle if middle < SHORT and outer * inner > middle else 0
    extents: list[Affine] = [affine(n) if n else Affine(1) for n in names]
    if short:
        extents[1] = Affine(short)
        names[1] = None
    shape = tuple(extents)
    result = shape if keeps else (shape[0], shape[2])
    types = element_type(x.dtype), element_type(out.dtype)
    symbols = [s for s in names if s]
    values = [n for n, s in zip(sizes, names, strict=True) if s]

    def make() -> Kernel:
        return plan_symbolic(op, [shape], types[:1], [result], types[1:], symbols)

    return NormalForm(("along", op, types, tuple(symbols), short), values, make)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


# Indexing

#: Ops whose rules say everything in terms of extents.
INDEXING = frozenset({
    "gather", "dynamic_slice", "dynamic_update_slice", "scatter", "scatter-add", "scatter-sub",
    "scatter-mul", "scatter-min", "scatter-max",
})  # fmt: skip


@final
class _Extents:
    """Names for the extents of some shapes; 1 keeps its value."""

    __slots__ = ("names", "values")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.values: list[int] = []

    def of(self, n: int, name: str) -> Affine:
        """The extent `n`, as a new name."""
        if n == 1:
            return Affine(1)
        self.names.append(name)
        self.values.append(n)
        return affine(name)


def _indexing(op: Op, avals: Sequence[ShapedArray]) -> NormalForm | None:
    """Every extent is a run-time value; where the dimension numbers say that two are one (or the
    window is all of an axis), they have one name."""
    out = op.result(*avals)
    extents = _Extents()
    x = tuple(extents.of(n, f"a{d}") for d, n in enumerate(avals[0].shape))
    numbers = op.params.get("dimension_numbers")
    shapes = [x]
    if numbers is None:  # dynamic slices: scalar starts, the update's extents are a window's
        window = op.params["slice_sizes"] if "slice_sizes" in op.params else avals[1].shape
        sizes = [_window(extents, n, avals[0].shape[d], x[d], d) for d, n in enumerate(window)]
        update = "slice_sizes" not in op.params
        shapes += [tuple(sizes)] * update + [()] * (len(avals) - 1 - update)
        result = x if update else tuple(sizes)
    else:
        _, dropped, _, x_batch, i_batch = numbers
        paired = {d: x[k] for d, k in zip(i_batch, x_batch, strict=True)}
        vectors = avals[1].shape
        batch = [
            paired[d] if d in paired else extents.of(n, f"b{d}") for d, n in enumerate(vectors[:-1])
        ]
        shapes.append((*batch, Affine(vectors[-1])))
        given = op.params.get("slice_sizes")
        scatters = given is None  # not by `is`: equal avals are one object
        windowed = avals[2] if scatters else out
        if given is None:
            given = [1] * len(x)
            inside = [d for d in range(len(x)) if d not in dropped and d not in x_batch]
            for d, k in zip(inside, numbers[0], strict=True):
                given[d] = windowed.shape[k]
        sizes = [_window(extents, n, avals[0].shape[d], x[d], d) for d, n in enumerate(given)]
        inner = iter(n for d, n in enumerate(sizes) if d not in dropped and d not in x_batch)
        outer = iter(batch)
        whole = tuple(next(inner) if d in numbers[0] else next(outer) for d in range(windowed.ndim))
        if scatters:
            shapes.append(whole)
        result = x if scatters else whole
    general = op
    if "slice_sizes" in op.params:
        general = op.with_params(slice_sizes=tuple(n.constant or n for n in sizes))
    types = tuple(element_type(a.dtype) for a in avals)
    kind = element_type(out.dtype)

    def make() -> Kernel:
        return plan_symbolic(general, shapes, types, [result], [kind], extents.names)

    key = ("indexing", general, types, tuple(shapes))
    return NormalForm(key, extents.values, make, 0 if has_rule(op, "push") else None)


def _window(extents: _Extents, n: int, whole: int, name: Affine, d: int) -> Affine:
    """The size of a window along an axis of extent `whole`, called `name`."""
    return name if n == whole else extents.of(n, f"w{d}")


# Kernels


def plan_symbolic(
    op: Op,
    shapes: Sequence[Shape],
    types: Sequence[str],
    out_shapes: Sequence[Shape],
    out_types: Sequence[str],
    symbols: Sequence[str],
) -> Kernel:
    """The kernel of one operation whose extents may be run-time values (atoms of Affines).

    Its buffers are the arguments in order, then the results; `symbols`: the order of its numbers.
    """
    graph = Graph()
    args = [graph.input(k, s, t) for k, (s, t) in enumerate(zip(shapes, types, strict=True))]
    node = graph.apply(op, args, out_shapes, out_types)
    kernel, values = _lower(node)
    names = [n for n, b in kernel.buffers.items() if b.home != "scratch"]
    found = dict(zip(values, names, strict=True))
    buffers: dict[str, Buffer] = {}
    for k, v in enumerate([*args, *node.outs]):
        name = found.get(v)
        if name is None:
            buffers[f"unused{k}"] = Buffer(f"unused{k}", v.shape, v.dtype, "in")
        else:
            buffers[name] = kernel.buffers[name]
    buffers |= {n: b for n, b in kernel.buffers.items() if b.home == "scratch"}
    return Kernel(op.name, buffers, kernel.body, tuple(symbols))


def _lower(node: Node) -> tuple[Kernel, list[Value]]:
    def in_memory(v: Value) -> bool:
        return v.node is None

    if node.rule == "push":
        return loops.serial.lower_push(node, in_memory)[:2]
    if node.rule == "cumulate":
        return loops.serial.lower_cumulate(node, in_memory)
    group = loops.planner.Group(node.outs)
    return loops.planner.lower_group(group, in_memory, node.op.name)
