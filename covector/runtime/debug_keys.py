"""The option `debug_key_reuse`, for operations that run at once: each array's keys are followed.

While it is set in some thread, the trace at the bottom runs `tracked` (`watch`).  What a key was
used for before is remembered as long as an array holds it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from covector import transforms
from covector._base.config import config
from covector._base.context import context
from covector._base.source import user_frame
from covector.ir.op import Op
from covector.ir.values import typeof
from covector.runtime import debug_values
from covector.runtime.array import Array, host
from covector.runtime.watch import KEYS

#: id of an array -> (weak reference to it, its keys).
_known: Final[dict[int, tuple[Any, np.ndarray]]] = {}
_lock: Final = threading.RLock()


def tracked(op: Op, args: Sequence[Any]) -> Any:
    """As evaluation without it.  Raises KeyReuseError for a key that has been consumed."""
    local = KEYS.local
    if local.inside or not config.debug_key_reuse:
        return debug_values.watched(op, args)
    if not any(type(x) is Array and transforms.key_reuse.is_key(x.aval) for x in args):
        return debug_values.watched(op, args)
    local.inside = True
    try:
        avals = [typeof(x) for x in args]
        out_avals = op.result(*avals)
        out_avals = list(out_avals) if op.multiple_results else [out_avals]
        with _lock:
            given = [_value(x, aval) for x, aval in zip(args, avals, strict=True)]
            keys = transforms.key_reuse.follow(
                op, given, avals, out_avals, context.source or user_frame()
            )
        outs = debug_values.watched(op, args)
        with _lock:
            for x, found in zip(outs if op.multiple_results else [outs], keys, strict=True):
                if transforms.key_reuse.is_key(x.aval):
                    _remember(x, found)
    finally:
        local.inside = False
    return outs


def _value(x: Any, aval: Any) -> Any:
    """The keys of an array of keys; of another value, its elements if they are few."""
    if transforms.key_reuse.is_key(aval):
        return _keys_of(x)
    if aval.size > transforms.key_reuse.SMALL:
        return None
    return host(x) if type(x) is Array else np.asarray(x)


def _keys_of(x: Array) -> np.ndarray:
    known = _known.get(id(x))
    return _remember(x, transforms.key_reuse.new_keys(x.shape)) if known is None else known[1]


def _remember(x: Array, keys: np.ndarray) -> np.ndarray:
    name = id(x)
    _known[name] = (weakref.ref(x, lambda _: _known.pop(name, None)), keys)
    return keys
