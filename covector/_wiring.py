"""The one module that knows every room: it fills the sockets that low rooms leave open."""

from __future__ import annotations

import covector.ir.text as _text  # noqa: F401  (puts its printer into Jaxpr)
from covector._base.context import Context
from covector.runtime import array, dispatch
from covector.sharding import SingleDeviceSharding
from covector.trace.evaluate import EvalTrace

Context.trace = EvalTrace(dispatch.evaluate)
array.default_sharding[:] = [SingleDeviceSharding]
