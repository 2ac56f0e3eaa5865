"""Covector: differentiate, vectorise, parallelise and compile Python functions over arrays.

The public door: it re-exports, and loads `covector.numpy` and other leaves when first used.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from covector import _wiring as _wiring
from covector._base.config import (
    checking_leaks,
    config,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_x64,
    log_compiles,
    numpy_dtype_promotion,
    numpy_rank_promotion,
)
from covector.api.arrays import block_until_ready, device_get, device_put
from covector.api.autodiff import grad, jvp, linearize, value_and_grad, vjp
from covector.api.inspect import ShapeDtypeStruct, eval_shape, make_jaxpr, typeof
from covector.api.jit import clear_caches, jit
from covector.api.public_array import Array
from covector.api.vectorize import vmap
from covector.dtypes import float0
from covector.runtime.device import (
    Device,
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from covector.version import __version__

#: Public leaf modules, loaded when first used, so that import stays quick.
_LEAVES = frozenset(
    {"debug", "dtypes", "errors", "lax", "nn", "numpy", "random", "scipy", "tree", "tree_util"}
)

__all__ = [
    "Array",
    "Device",
    "ShapeDtypeStruct",
    "__version__",
    "block_until_ready",
    "checking_leaks",
    "clear_caches",
    "config",
    "debug_infs",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "enable_x64",
    "eval_shape",
    "float0",
    "grad",
    "jit",
    "jvp",
    "linearize",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_jaxpr",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "process_count",
    "process_index",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> _Any:
    if name in _LEAVES:
        return _import_module(f"covector.{name}")
    raise AttributeError(f"module 'covector' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LEAVES})
