"""The one module that knows every room: it fills the sockets that low rooms leave open."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from covector._base.lazy import uncollected

with uncollected():
    # First: the native runtime must be offered before the array class is made.
    import covector.backends.cpu.native as _native  # noqa: F401  isort: skip

    import covector.ir.text as _text  # noqa: F401  (puts its printer into Jaxpr)
    from covector import numpy as cnp
    from covector import ops, runtime
    from covector._base.context import Context
    from covector.backends.cpu.backend import CpuBackend
    from covector.ir.avals import ShapedArray
    from covector.ir.op import Op, Registry
    from covector.numpy.methods import Later, array_methods
    from covector.runtime import (
        array,
        dispatch,
        eager,
        native,
        placement,
        watch,
    )
    from covector.runtime.backend import backends
    from covector.trace import watchers
    from covector.trace.evaluate import EvalTrace
    from covector.trace.tracer import Tracer


def _compile(op: Op, avals: tuple[ShapedArray, ...]) -> Any:
    """What eager evaluation runs: machine code where the op, or its program, has native rules."""
    cpu = backends.get("cpu")
    if ops.is_loaded("call") and isinstance(op, ops.call.Jit):
        try:
            return cpu.compile(op.jaxpr)
        except NotImplementedError:
            return dispatch.StepByStep(op.jaxpr)
    try:
        return cpu.compile_op(op, avals)
    except NotImplementedError:
        return None


def _load_primitives() -> None:
    import covector.parallel.op as _op  # noqa: F401

    for family in (getattr(ops, name) for name in ops.__all__):
        for name in getattr(family, "__all__", ()):
            getattr(family, name)


def _single(device: Any) -> Any:
    """The sharding of an array that is whole on one device."""
    from covector.sharding import SingleDeviceSharding

    return SingleDeviceSharding(device)


def _spread(op: Op, avals: Any, given: Any, outs: Any) -> Any:
    """The shardings of results: None where no argument has one and there is no `shard_map`."""
    if "covector.parallel.op" not in sys.modules and all(s is None for s in given):
        return None
    from covector.parallel.propagate import shardings

    return shardings(op, avals, given, outs)


def _exchange(name: str) -> Any:
    """A function that gives an array's memory to another library."""
    return getattr(runtime.interchange, name)


def _at(made: Any) -> Any:
    """`at` of arrays with native parts."""
    return made.helper_type(cnp._at.IndexHelper, cnp._at.IndexedUpdate)


Registry.loaders.append(_load_primitives)
Context.trace = EvalTrace(dispatch.evaluate)
watch.install()
array.default_sharding[:] = [_single]
placement.spread[:] = [_spread]
backends.add(CpuBackend())
dispatch.compilers.append(_compile)
watchers.append(array.watch)
for _name, _function in (("__dlpack__", "to_dlpack"), ("__dlpack_device__", "dlpack_device")):
    setattr(array.Array, _name, Later(_name, partial(_exchange, _function)))
_methods = array_methods()
eager.install_operators(_methods)
_runtime = native.native()
if _runtime is not None:
    array.Array.at = Later("at", partial(_at, _runtime))
for _name, _method in _methods.items():
    setattr(Tracer, _name, _method)
