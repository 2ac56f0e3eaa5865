"""Covector: differentiate, vectorise, parallelise and compile Python functions over arrays.

The public door: it loads what it names when first used.  Entering any room starts `_wiring`.
"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector import ad_checkpoint as ad_checkpoint
    from covector import custom_batching as custom_batching
    from covector import custom_derivatives as custom_derivatives
    from covector import debug as debug
    from covector import dtypes as dtypes
    from covector import errors as errors
    from covector import experimental as experimental
    from covector import flatten_util as flatten_util
    from covector import lax as lax
    from covector import nn as nn
    from covector import numpy as numpy
    from covector import random as random
    from covector import scipy as scipy
    from covector import sharding as sharding
    from covector import stages as stages
    from covector import tree as tree
    from covector import tree_util as tree_util
    from covector import typing as typing
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
    from covector.runtime.threads import limit_threads, num_threads, set_num_threads
    from covector.sharding import NamedSharding, P, set_mesh

from covector.version import __version__, __version_info__

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
    "limit_threads",
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
    "num_threads",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pmap",
    "process_count",
    "process_index",
    "pure_callback",
    "remat",
    "remove_size_one_mesh_axis_from_type",
    "set_mesh",
    "set_num_threads",
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
