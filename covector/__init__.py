"""Covector: differentiate, vectorise, parallelise and compile Python functions over arrays.

The public door: it re-exports, and loads `covector.numpy` and other leaves when first used.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from covector import _wiring as _wiring
from covector._base.config import (
    allow_f16_reductions,
    array_garbage_collection_guard,
    auto_pcast,
    check_tracer_leaks,
    checking_leaks,
    config,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    explain_cache_misses,
    jax2tf_associative_scan_reductions,
    legacy_prng_key,
    log_compiles,
    make_user_context,
    no_execution,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    remove_size_one_mesh_axis_from_type,
    softmax_custom_jvp,
    thread_guard,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
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
from covector.version import __version__, __version_info__

#: Public leaf modules, loaded when first used, so that import stays quick.
_LEAVES = frozenset(
    {"debug", "dtypes", "errors", "lax", "nn", "numpy", "random", "tree", "tree_util"}
)

__all__ = [
    "Array",
    "Device",
    "ShapeDtypeStruct",
    "__version__",
    "__version_info__",
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "auto_pcast",
    "block_until_ready",
    "check_tracer_leaks",
    "checking_leaks",
    "clear_caches",
    "config",
    "debug_infs",
    "debug_key_reuse",
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
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "eval_shape",
    "explain_cache_misses",
    "float0",
    "grad",
    "jax2tf_associative_scan_reductions",
    "jit",
    "jvp",
    "legacy_prng_key",
    "linearize",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_jaxpr",
    "make_user_context",
    "no_execution",
    "no_tracing",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "process_count",
    "process_index",
    "remove_size_one_mesh_axis_from_type",
    "softmax_custom_jvp",
    "thread_guard",
    "threefry_partitionable",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
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
