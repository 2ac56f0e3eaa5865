"""Programs over devices for the laws: every collective, over one axis and over two."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from covector import ops
from covector.ir.avals import ShapedArray
from covector.ops.collective import AxisIndex, Pmax, Pmin, Psum, PVary
from covector.ops.collective_moves import (
    AllGather,
    AllToAll,
    PBroadcast,
    PPermute,
    ReduceScatter,
)

#: (program of a device's parts, mesh, specs of arguments, specs of results, their types).
Program = tuple[Callable[..., Any], Any, Any, Any, tuple[ShapedArray, ...]]

_GROUPS = ((0, 3), (2, 1))
_MESH = (("x", 4), ("y", 2))
_X, _Y, _XY, _ = ("x",), ("y",), ("x", "y"), ()


def _one(*collectives: Any) -> Callable[..., Any]:
    """The collectives one after another, of the sine of the argument."""

    def run(x: Any) -> list[Any]:
        x = ops.pointwise.sin(x) if np.dtype(x.dtype).kind in "fc" else x
        for op in collectives:
            x = op(x)
        return [x]

    run.__name__ = collectives[0].name
    return run


def programs() -> Iterable[Program]:
    """All of them."""
    line = (("x", 4),)
    cases = (
        (Psum(("x",), None), (), ()),
        (Psum(("x",), _GROUPS), (), (_X,)),
        (Psum(("x",), ((0,), (2, 1, 3))), (), (_X,)),
        (Pmax(("x",), None), (), ()),
        (Pmin(("x",), _GROUPS), (), (_X,)),
        (PPermute("x", ((0, 1), (1, 3), (3, 0))), (), (_X,)),
        (PPermute("x", ((0, 1), (1, 2), (2, 3), (3, 0))), (), (_X,)),
        (PBroadcast("x", 2), (), ()),
        (AllGather("x", 4, None, 1), (), ()),
        (AllGather("x", 2, _GROUPS, 0), (), (_, _X)),
        (ReduceScatter("x", 4, None, 1), (_, _), (_X,)),
        (ReduceScatter("x", 2, _GROUPS, 0), (), (_X,)),
        (AllToAll("x", 4, None, 1, 0), (_, _), (_, _X)),
        (AllToAll("x", 2, _GROUPS, 0, 1), (), (_X,)),
    )
    for op, spec, out in cases:
        shape = (8, 4)
        spec = spec or (_X,)
        for dtype in ("float32", "float64") if isinstance(op, AllGather) else ("float64",):
            yield _one(op), line, (spec,), (out,), (ShapedArray(shape, dtype),)
    yield _one(Psum(("x",), None)), line, ((_X,),), ((),), (ShapedArray((8, 4), "int32"),)
    yield _one(Pmax(("x",), None)), line, ((_X,),), ((),), (ShapedArray((8, 4), "bool"),)

    yield _one(PVary(("x",), None)), line, ((),), ((_X,),), (ShapedArray((2, 3), "float64"),)

    wide = ShapedArray((8, 6), "float64")
    for op, spec, out in (
        (Psum(("x", "y"), None), (_X, _Y), ()),
        (Psum(("y",), None), (_Y, _X), (_, _X)),
        (Pmax(("y", "x"), None), (_XY,), ()),
        (PPermute("y", ((0, 1),)), (_XY,), (("y", "x"),)),
    ):
        aval = wide if spec != (_Y, _X) else ShapedArray((6, 8), "float64")
        yield _one(op), _MESH, (spec,), (out,), (aval,)

    def mixed(a: Any, b: Any) -> list[Any]:
        """An argument that all have, one that is cut; results of every kind."""
        place = ops.cast.convert_element_type(AxisIndex("x")(), a.dtype, False)
        product = ops.pointwise.mul(ops.pointwise.sin(a), ops.pointwise.add(b, place))
        total = Psum(("x", "y"), None)(product)
        return [ops.pointwise.mul(total, a), product, Psum(("y",), None)(b), a]

    row = ShapedArray((3,), "float64")
    yield (
        mixed, _MESH, ((), (("y", "x"),)), ((), (_XY,), (_X,), ()),
        (row, ShapedArray((24,), "float64")),
    )  # fmt: skip
