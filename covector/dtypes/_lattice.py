"""The type promotion lattice.

It is the one that JAX documents ("Type promotion semantics"): an edge leads from a type to each
type that it may implicitly become; ``i*``, ``f*`` and ``c*`` stand for Python scalars ("weak"
types). Two types promote to their least upper bound, computed on first use and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from covector._base.config import PerConfig, config

from ._types import BY_NAME, ENTRIES, NARROWED, python_kinds

# A dtype, or one of the Python types int, float, complex.
Node: TypeAlias = "np.dtype[Any] | type"


class TypePromotionError(ValueError):
    """The operands have no common type that either may implicitly become."""


def _edges() -> dict[str, dict[Node, tuple[Node, ...]]]:
    named = BY_NAME.__getitem__
    sub_byte = [d for d, e in ENTRIES.items() if e.kind in "iu" and e.bits < 8]
    # These floats never become another type by themselves.
    tiny = [d for d, e in ENTRIES.items() if e.kind == "f" and e.bits <= 8]
    standard: dict[Node, tuple[Node, ...]] = {
        named("bool"): (int,),
        int: (named("uint8"), named("int8"), *sub_byte),
        float: (complex, named("bfloat16"), named("float16"), *tiny),
        complex: (named("complex64"),),
    }
    for line in (
        "uint8 int16 uint16", "uint16 int32 uint32", "uint32 int64 uint64",
        "int8 int16", "int16 int32", "int32 int64",
        "bfloat16 float32", "float16 float32", "float32 float64 complex64",
        "float64 complex128", "complex64 complex128",
    ):  # fmt: skip
        low, *high = map(named, line.split())
        standard[low] = tuple(high)
    standard[named("int64")] = standard[named("uint64")] = (float,)
    of_kind = {kind: [d for d, e in ENTRIES.items() if e.kind in kind] for kind in ("iu", "f", "c")}
    strict: dict[Node, tuple[Node, ...]] = {
        int: (float, *of_kind["iu"]),
        float: (complex, *of_kind["f"]),
        complex: tuple(of_kind["c"]),
    }
    return {"standard": standard, "strict": strict}


def _upper_bounds(edges: dict[Node, tuple[Node, ...]]) -> dict[Node, frozenset[Node]]:
    bounds: dict[Node, frozenset[Node]] = {}

    def visit(node: Node) -> frozenset[Node]:
        if node not in bounds:
            bounds[node] = frozenset({node}).union(*map(visit, edges.get(node, ())))
        return bounds[node]

    for node in (*ENTRIES, int, float, complex):
        visit(node)
    return bounds


class _Lattice:
    """Least upper bounds, each computed once."""

    __slots__ = ("bounds", "joins", "mode")

    def __init__(self, mode: str, edges: dict[Node, tuple[Node, ...]]):
        self.mode: Final = mode
        self.bounds: Final = _upper_bounds(edges)
        self.joins: Final[dict[Any, Node]] = {}

    def join(self, nodes: frozenset[Node]) -> Node:
        try:
            return self.joins[nodes]
        except KeyError:
            return self.joins.setdefault(nodes, self._search(nodes))

    def _search(self, nodes: frozenset[Node]) -> Node:
        for node in nodes:
            if node not in self.bounds:
                raise ValueError(f"{node} takes no part in type promotion")
        first, *others = (self.bounds[node] for node in nodes)
        common = first.intersection(*others)
        for node in common:
            if self.bounds[node] == common:
                return node
        raise TypePromotionError(self._refusal(nodes))

    def _refusal(self, nodes: frozenset[Node]) -> str:
        names = sorted(node_name(node) for node in nodes)
        text = f"{' and '.join(names)} do not promote to a common type"
        if self.mode == "strict":
            return (
                f"{text} under numpy_dtype_promotion='strict': convert the operands explicitly "
                "(x.astype(...)), or set the option to 'standard'"
            )
        entries = [e for node in nodes if (e := ENTRIES.get(node))]  # type: ignore[arg-type]
        reasons = [
            reason
            for kinds, reason in (
                ("iu", "integers of fewer than 8 bits"),
                ("f", "floats of 8 bits or fewer"),
            )
            if any(e.kind in kinds and e.bits <= 8 - (kinds == "iu") for e in entries)
        ]
        why = f": {' and '.join(reasons)} are never promoted silently" if reasons else ""
        target = "float32" if "floats of 8 bits or fewer" in reasons else "int32"
        return f"{text}{why}; convert explicitly, for instance x.astype({target!r})"


def node_name(node: Node) -> str:
    """``float32``, or ``Python float`` for a weak type."""
    return f"Python {node.__name__}" if isinstance(node, type) else str(node)


_LATTICES: Final = {mode: _Lattice(mode, edges) for mode, edges in _edges().items()}
_WIDEST: Final = {
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


def _narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return NARROWED.get(dtype, dtype)


class _Pairs(dict[tuple[Any, Any], np.dtype[Any]]):
    """The common type of each pair of dtypes under one setting of the options; filled on demand."""

    __slots__ = ("lattice", "x64")

    def __init__(self, mode: str, x64: bool):
        super().__init__()
        self.lattice: Final = _LATTICES[mode]
        self.x64: Final = x64

    def __missing__(self, pair: tuple[Any, Any]) -> np.dtype[Any]:
        node = self.lattice.join(frozenset(pair))
        found = _WIDEST[node] if isinstance(node, type) else node
        # int8 with uint32 gives 64 bits only where there are 64-bit types.
        if not self.x64 and not any(d in NARROWED or d in _WIDEST for d in pair):
            found = _narrow(found)
        return self.setdefault(pair, found)


class _Joins(dict[Any, tuple[np.dtype[Any], bool]]):
    """The same for any number of (dtype, weak) pairs."""

    __slots__ = ("keep_64", "mode", "x64")

    def __init__(self, mode: str, x64: bool, keep_64: bool):
        super().__init__()
        self.mode: Final = mode
        self.x64: Final = x64
        self.keep_64: Final = keep_64

    def __missing__(self, operands: Any) -> tuple[np.dtype[Any], bool]:
        if self.x64:
            found, weak = _join(operands, self.mode)
        elif not self.keep_64:
            found, weak = _join([(_narrow(d), w) for d, w in operands], self.mode)
            found = _narrow(found)
        else:
            # Only an operand of 64 bits makes a result of 64 bits.
            found, weak = _join(operands, self.mode)
            if weak or not any(d in NARROWED and not w for d, w in operands):
                found = _narrow(found)
        return self.setdefault(operands, (found, weak))


_pairs: Final = PerConfig(lambda: _Pairs(config.numpy_dtype_promotion, config.enable_x64))
_joins: Final = PerConfig(
    lambda: _Joins(
        config.numpy_dtype_promotion, config.enable_x64, config.explicit_x64_dtypes == "allow"
    )
)


def promote_dtypes(a: Node, b: Node) -> np.dtype[Any]:
    """The common type of two dtypes or Python scalar types; 64-bit operands count as such.

    Raises TypePromotionError if there is none, ValueError if one takes no part in promotion.
    """
    return _pairs[config.current_key][a, b]


def join(operands: tuple[tuple[np.dtype[Any], bool], ...]) -> tuple[np.dtype[Any], bool]:
    """The common type of operands given as (dtype, weak) pairs: (dtype, whether it is weak).

    64-bit results narrow unless ``enable_x64``. This is what operations call; the answer comes
    from a dictionary after the first time.
    """
    return _joins[config.current_key][operands]


def _join(operands: Sequence[tuple[np.dtype[Any], bool]], mode: str) -> tuple[np.dtype[Any], bool]:
    """The common type where 64-bit types exist."""
    first = operands[0][0]
    if first not in ENTRIES and all(d == first for d, _ in operands):
        return first, False  # keys, float0: they mix with their own kind only
    lattice = _LATTICES[mode]
    weak = [w and python_kinds.get(d) in _WIDEST for d, w in operands]
    if all(w for _, w in operands) and any(weak):
        # Weak with weak: the dtypes decide (a weak uint with a weak uint is unsigned), then the
        # result is as wide as Python's own.
        nodes = frozenset(d for d, _ in operands)
        if mode == "strict" and len(operands) > 1:
            nodes = frozenset(d if d == np.bool_ else python_kinds[d] for d in nodes)
        found = lattice.join(nodes)
        if isinstance(found, type):
            return _WIDEST[found], True
        unsigned = ENTRIES[found].kind == "u"
        return (np.dtype(np.uint64) if unsigned else _WIDEST[python_kinds[found]]), True
    nodes = frozenset(python_kinds[d] if w else d for (d, _), w in zip(operands, weak, strict=True))
    found = lattice.join(nodes)
    return (_WIDEST[found], True) if isinstance(found, type) else (found, False)
