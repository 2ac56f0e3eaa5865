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
from covector.api.autodiff import fwd_and_bwd, grad, jvp, linearize, value_and_grad, vjp
from covector.api.callbacks import effects_barrier, pure_callback
from covector.api.checkpoint import checkpoint, checkpoint_policies, remat
from covector.api.custom_jvp import custom_jvp
from covector.api.custom_vjp import custom_gradient, custom_vjp
from covector.api.inspect import (
    ShapeDtypeStruct,
    ensure_compile_time_eval,
    eval_shape,
    live_arrays,
    make_jaxpr,
    named_call,
    named_scope,
    typeof,
)
from covector.api.jacobians import hessian, jacfwd, jacobian, jacrev
from covector.api.jit import clear_caches, jit
from covector.api.linear import closure_convert, linear_transpose
from covector.api.mesh import (
    make_array_from_callback,
    make_array_from_single_device_arrays,
    make_mesh,
)
from covector.api.pmap import pmap
from covector.api.public_array import Array
from covector.api.shard_map import shard_map, smap
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
from covector.runtime.placement import Shard
from covector.sharding import NamedSharding, P, set_mesh
from covector.version import __version__, __version_info__

#: Public leaf modules, loaded when first used, so that import stays quick.
_LEAVES = frozenset(
    {
        "ad_checkpoint", "custom_batching", "custom_derivatives", "debug", "dtypes", "errors",
        "experimental", "flatten_util", "lax", "nn", "numpy", "random", "scipy",
        "sharding", "stages", "tree", "tree_util", "typing",
    }
)  # fmt: skip

__all__ = [
    "Array",
    "Device",
    "NamedSharding",
    "P",
    "ShapeDtypeStruct",
    "Shard",
    "__version__",
    "__version_info__",
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "auto_pcast",
    "block_until_ready",
    "check_tracer_leaks",
    "checking_leaks",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
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
    "effects_barrier",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "ensure_compile_time_eval",
    "eval_shape",
    "explain_cache_misses",
    "float0",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jax2tf_associative_scan_reductions",
    "jit",
    "jvp",
    "legacy_prng_key",
    "linear_transpose",
    "linearize",
    "live_arrays",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_array_from_callback",
    "make_array_from_single_device_arrays",
    "make_jaxpr",
    "make_mesh",
    "make_user_context",
    "named_call",
    "named_scope",
    "no_execution",
    "no_tracing",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pmap",
    "process_count",
    "process_index",
    "pure_callback",
    "remat",
    "remove_size_one_mesh_axis_from_type",
    "set_mesh",
    "shard_map",
    "smap",
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
