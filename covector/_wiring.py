"""The one module that knows every room: it fills the sockets that low rooms leave open."""

from __future__ import annotations

from typing import Any

from covector._base.lazy import uncollected

with uncollected():
    # First: the native runtime must be offered before the array class is made.
    import covector.backends.cpu.native as _native  # noqa: F401  isort: skip

    import covector.ir.text as _text  # noqa: F401  (puts its printer into Jaxpr)
    from covector import ops
    from covector._base.context import Context
    from covector.backends.cpu.backend import CpuBackend
    from covector.ir.avals import ShapedArray
    from covector.ir.op import Op, Registry
    from covector.numpy._at import IndexedUpdate, IndexHelper
    from covector.numpy.methods import array_methods
    from covector.ops.call import Jit
    from covector.parallel.propagate import shardings
    from covector.runtime import (
        array,
        debug_keys,
        debug_values,
        dispatch,
        eager,
        native,
        placement,
        watch,
    )
    from covector.runtime.backend import backends
    from covector.sharding import SingleDeviceSharding
    from covector.trace import cache
    from covector.trace.evaluate import EvalTrace
    from covector.trace.tracer import Tracer


def _compile(op: Op, avals: tuple[ShapedArray, ...]) -> Any:
    """What eager evaluation runs: machine code where the op, or its program, has native rules."""
    cpu = backends.get("cpu")
    if isinstance(op, Jit):
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


Registry.loaders.append(_load_primitives)
Context.trace = EvalTrace(dispatch.evaluate)
watch.install(debug_keys.WATCH, debug_values.WATCH)
array.default_sharding[:] = [SingleDeviceSharding]
placement.spread[:] = [shardings]
backends.add(CpuBackend())
dispatch.compilers.append(_compile)
cache.watchers.append(array.watch)
eager.install_operators(array_methods())
_runtime = native.native()
if _runtime is not None:
    array.Array.at = _runtime.helper_type(IndexHelper, IndexedUpdate)
for _name, _method in array_methods().items():
    setattr(Tracer, _name, _method)
