"""What an option is, and the table of all of them. ``config.py`` holds their values.

Names are JAX's without the ``jax_`` prefix, which ``config`` accepts too. An option that *traces*
is part of the key of every trace cache: a program traced under one value is not reused under
another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

#: Options of `OPTIONS` whose meaning is not built yet: they can be set and read, and say so.
NOT_YET: Final = frozenset(
    [
        "default_matmul_precision",
        "allow_f16_reductions",
        "threefry_partitionable",
        "high_dynamic_range_gumbel",
        "softmax_custom_jvp",
        "check_static_indices",
        "error_checking_behavior_nan",
        "error_checking_behavior_divide",
        "error_checking_behavior_oob",
        "no_execution",
        "logging_level",
        "pprint_use_color",
        "tracer_error_num_traceback_frames",
        "captured_constants_warn_bytes",
        "captured_constants_report_frames",
        "dump_ir_to",
        "persistent_cache_min_compile_time_secs",
        "transfer_guard",
        "transfer_guard_host_to_device",
        "transfer_guard_device_to_device",
        "transfer_guard_device_to_host",
        "array_garbage_collection_guard",
        "thread_guard",
        "cpu_collectives_implementation",
    ]
)


class Option:
    """One setting: its name, what it accepts, its default and its environment variables."""

    __slots__ = ("accept", "allowed", "default", "doc", "env", "is_flag", "jax_name", "name",
                 "parse", "traced")  # fmt: skip

    def __init__(
        self, name: str, kind: Kind, default: Any, doc: str, *, traced: bool = False,
        jax: bool | str = True,
    ):  # fmt: skip
        self.name: Final = name
        self.jax_name: Final = jax if isinstance(jax, str) else f"jax_{name}" if jax else name
        self.accept, self.parse, self.allowed = kind.accept, kind.parse, kind.allowed
        self.is_flag: Final = kind is BOOL
        self.default: Final = default
        self.doc: Final = f"{doc} Not acted on yet." if name in NOT_YET else doc
        self.traced: Final = traced
        ours = f"COVECTOR_{name.upper()}"
        self.env: Final = (ours, self.jax_name.upper()) if jax else (ours,)

    def check(self, value: Any) -> Any:
        """The value as it is stored; TypeError or ValueError if the option cannot take it."""
        return self.accept(self, value)

    def refuse(self, error: type[Exception], value: Any) -> Exception:
        return error(
            f"option {self.name!r} takes {self.allowed}; got {value!r} "
            f"of type {type(value).__name__}"
        )

    def __repr__(self) -> str:
        return f"Option({self.name}: {self.allowed}, default {self.default!r})"


class Kind:
    """What values an option takes: a check, a reader of environment text, and words for both."""

    __slots__ = ("accept", "allowed", "parse")

    def __init__(
        self, accept: Callable[[Option, Any], Any], parse: Callable[[str], Any], allowed: str
    ):
        self.accept, self.parse, self.allowed = accept, parse, allowed


_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"0", "false", "no", "off", "n", "f", ""})


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError(text)


def _parse_optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.strip() in ("", "None") else parse(text)


def _accept_bool(option: Option, value: Any) -> bool:
    # 0, 1 and NumPy booleans are meant as booleans; "false", a true string, is not.
    if isinstance(value, int) or type(value).__name__ in ("bool", "bool_"):
        if value in (0, 1):
            return bool(value)
        raise option.refuse(ValueError, value)
    raise option.refuse(TypeError, value)


BOOL: Final = Kind(_accept_bool, _parse_bool, "True or False")


def number(
    kind: type[int] | type[float],
    low: float | None = None,
    high: float | None = None,
    *,
    optional: bool = False,
) -> Kind:
    """An int or a float within bounds, perhaps None."""

    def accept(option: Option, value: Any) -> Any:
        if value is None and optional:
            return None
        accepted = (int,) if kind is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise option.refuse(TypeError, value)
        if (low is not None and value < low) or (high is not None and value > high):
            raise option.refuse(ValueError, value)
        return kind(value)

    words = "an integer" if kind is int else "a number"
    if low is not None and high is not None:
        words += f" from {low} to {high}"
    elif low is not None:
        words += f" of at least {low}"
    return Kind(
        accept, _parse_optional(kind) if optional else kind, words + (" or None" * optional)
    )


def string(*, optional: bool = False) -> Kind:
    """Any text, perhaps None; a path-like object counts as text."""

    def accept(option: Option, value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, os.PathLike):
            value = os.fspath(value)  # type: ignore[reportUnknownArgumentType]
        if not isinstance(value, str):
            raise option.refuse(TypeError, value)
        return value

    parse = _parse_optional(str) if optional else str
    return Kind(accept, parse, "a string" + (" or None" * optional))


def choice(*choices: str, optional: bool = False) -> Kind:
    """One of some words, perhaps None. Members of an enum with such values count as words."""

    def accept(option: Option, value: Any) -> Any:
        if value is None and optional:
            return None
        word = value if isinstance(value, str) else getattr(value, "value", value)
        if not isinstance(word, str):
            raise option.refuse(TypeError, value)
        if word not in choices:
            raise option.refuse(ValueError, value)
        return word

    words = "one of " + ", ".join(map(repr, choices)) + (" or None" * optional)
    return Kind(accept, _parse_optional(str) if optional else str, words)


def _accept_hashable(option: Option, value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise option.refuse(TypeError, value) from None
    return value


ANY: Final = Kind(_accept_hashable, _parse_optional(str), "a hashable value or None")
DEVICE: Final = Kind(
    _accept_hashable, _parse_optional(str), "a device, the name of a platform, or None"
)

_GUARD = choice("allow", "log", "disallow", "log_explicit", "disallow_explicit", optional=True)
_CHECK = choice("ignore", "raise")
_EFFORT = choice("UNKNOWN", "O0", "O1", "O2", "O3")
_PRECISION = choice(
    "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
    "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32",
    "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64", optional=True,
)  # fmt: skip
_PRNG = choice(
    "threefry2x32", "threefry4x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32"
)  # fmt: skip


def _traced(name: str, kind: Kind, default: Any, doc: str, jax: bool | str = True) -> Option:
    return Option(name, kind, default, doc, traced=True, jax=jax)


def _own(name: str, kind: Kind, default: Any, doc: str, traced: bool = False) -> Option:
    return Option(name, kind, default, doc, traced=traced, jax=False)


OPTIONS: Final[tuple[Option, ...]] = (
    # Meaning of programs.
    _traced("enable_x64", BOOL, False, "Keep 64-bit types; otherwise they become 32-bit."),
    _traced("explicit_x64_dtypes", choice("allow", "warn", "error"), "warn",
            "What an explicit request of a 64-bit dtype does while enable_x64 is off."),
    _traced("numpy_dtype_promotion", choice("standard", "strict"), "standard",
            "Under 'strict', mixing dtypes (other than weak ones) is an error."),
    _traced("numpy_rank_promotion", choice("allow", "warn", "raise"), "allow",
            "What broadcasting arrays of different rank does."),
    _traced("default_matmul_precision", _PRECISION, None,
            "Precision of dot products and convolutions that do not state one."),
    _traced("allow_f16_reductions", BOOL, True, "Allow reductions that accumulate in float16."),
    _traced("default_prng_impl", _PRNG, "threefry2x32", "Generator of keys made by default."),
    _traced("threefry_partitionable", BOOL, True,
            "Counter layout of threefry that can be sharded without communication."),
    _traced("enable_custom_prng", BOOL, False, "random.PRNGKey makes new-style typed keys."),
    _traced("legacy_prng_key", choice("allow", "warn", "error"), "allow",
            "What use of raw uint32 keys does."),
    _traced("high_dynamic_range_gumbel", BOOL, False, "Gumbel noise with a longer tail."),
    _traced("softmax_custom_jvp", BOOL, False, "Softmax has a derivative rule of its own."),
    _own("singular_derivatives", choice("finite", "ieee"), "finite",
         "Derivatives at singular points: 'finite' keeps a zero tangent zero, 'ieee' gives NaN "
         "where the plain product would.", traced=True),
    _traced("default_device", DEVICE, None, "Where arrays go that nothing else places."),
    # Checks.
    _traced("debug_nans", BOOL, False, "Raise where an operation yields NaN."),
    _traced("debug_infs", BOOL, False, "Raise where an operation yields an infinity."),
    _traced("debug_key_reuse", BOOL, False, "Raise where a random key is consumed twice."),
    _traced("check_tracer_leaks", BOOL, False, "Look for leaked tracers when a trace ends."),
    _traced("check_static_indices", BOOL, False, "Raise for static indices out of bounds."),
    _traced("enable_checks", BOOL, False, "Verify every program after every pass."),
    _traced("error_checking_behavior_nan", _CHECK, "ignore", "error_checking: NaN."),
    _traced("error_checking_behavior_divide", _CHECK, "ignore", "error_checking: division by 0."),
    _traced("error_checking_behavior_oob", _CHECK, "ignore", "error_checking: out of bounds."),
    _own("purity_guard", choice("off", "warn", "error", "retrace"), "off",
         "What happens when a traced function reads or writes state outside itself.", traced=True),
    _traced("no_tracing", BOOL, False, "Raise where a function would be traced again."),
    _traced("no_execution", BOOL, False, "Raise where a program would be run."),
    _traced("disable_jit", BOOL, False, "Run functions operation by operation."),
    # Speech.
    Option("log_compiles", BOOL, False, "Log what is traced and compiled, and how long it took."),
    Option("explain_cache_misses", BOOL, False, "Log why a function was traced again."),
    Option("traceback_filtering",
           choice("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"), "auto",
           "Whether tracebacks show Covector's own frames."),
    Option("logging_level",
           choice("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "NOTSET",
           "Level of the logger 'covector'."),
    Option("pprint_use_color", BOOL, True, "Colour in printed programs, on terminals only."),
    Option("tracer_error_num_traceback_frames", number(int, 0), 5,
           "User frames named by errors about tracers."),
    Option("captured_constants_warn_bytes", number(int), 2_000_000_000,
           "Warn when a program captures constants of more bytes; -1 never."),
    Option("captured_constants_report_frames", number(int), 0,
           "User frames shown with that warning; -1 all."),
    _own("debug", number(int, 0, 5), 0, "Verbosity, 0 to 5: each step shows one stage more."),
    Option("dump_ir_to", string(), "", "Directory to which every program is written."),
    # Running and caching.
    Option("enable_compilation_cache", BOOL, True, "Keep object code on disk between runs."),
    Option("compilation_cache_dir", string(optional=True), None, "Where; None: the user's cache."),
    Option("compilation_cache_max_size", number(int), -1, "Bytes kept on disk; -1: no limit."),
    Option("persistent_cache_min_compile_time_secs", number(float), 1.0,
           "Faster compilations are not stored by accelerator backends."),
    Option("num_cpu_devices", number(int, -1), -1, "CPU devices; -1: one."),
    Option("cpu_enable_async_dispatch", BOOL, True, "Long CPU computations return at once."),
    Option("platforms", string(optional=True), None, "Comma-separated platforms, best first."),
    Option("platform_name", string(), "", "Default platform (older name)."),
    Option("transfer_guard", _GUARD, None, "Guard for all transfers."),
    Option("transfer_guard_host_to_device", _GUARD, None, "Guard for transfers to a device."),
    Option("transfer_guard_device_to_device", _GUARD, None, "Guard for transfers between devices."),
    Option("transfer_guard_device_to_host", _GUARD, None, "Guard for transfers to the host."),
    Option("array_garbage_collection_guard", choice("allow", "log", "fatal", optional=True), None,
           "What finding an array in a reference cycle does."),
    Option("thread_guard", BOOL, False, "Raise when devices are used from several threads."),
    Option("cpu_collectives_implementation", choice("gloo", "mpi", "megascale"), "gloo",
           "Transport of collectives between processes; Covector always uses MPI."),
)  # fmt: skip

# Options of JAX that have nothing to act on here. They can be set and read, so that programs
# written for JAX run unchanged.
INERT: Final[tuple[Option, ...]] = tuple(
    Option(name, kind, default, "Accepted for JAX programs; no effect here.", jax=jax)
    for name, kind, default, jax in (
        ("auto_pcast", BOOL, True, True),
        ("bcoo_cusparse_lowering", BOOL, False, True),
        ("check_vma", BOOL, False, "check_vma"),
        ("compilation_cache_check_contents", BOOL, False, True),
        ("compilation_cache_expect_pgle", BOOL, False, True),
        ("compilation_cache_include_metadata_in_key", BOOL, False, True),
        ("compiler_enable_remat_pass", BOOL, True, True),
        ("cpu_get_global_topology_timeout_minutes", number(int), 5, True),
        ("cpu_get_local_topology_timeout_minutes", number(int), 2, True),
        ("cuda_visible_devices", string(), "all", True),
        ("custom_vjp3", BOOL, False, True),
        ("debug_leaked_clients_on_clear_backends", BOOL, False, True),
        ("debug_log_modules", string(), "", True),
        ("disable_bwd_checks", BOOL, False, True),
        ("disable_most_optimizations", BOOL, False, True),
        ("disable_vmap_shmap_error", BOOL, False, True),
        ("disallow_mesh_context_manager", BOOL, False, True),
        ("distributed_debug", BOOL, False, True),
        ("eager_constant_folding", BOOL, False, "eager_constant_folding"),
        ("embedded_constants_max_bytes", number(int), 32, True),
        ("enable_pgle", BOOL, False, True),
        ("enable_preemption_service", BOOL, True, True),
        ("enable_recoverability", BOOL, False, True),
        ("exec_time_optimization_effort", number(float), 0.0, True),
        ("experimental_unsafe_xla_runtime_errors", BOOL, False, True),
        ("export_calling_convention_version", number(int), 10, True),
        ("export_ignore_forward_compatibility", BOOL, False, True),
        ("hlo_source_file_canonicalization_regex", string(optional=True), None, True),
        ("include_debug_info_in_dumps", BOOL, True, True),
        ("include_full_tracebacks_in_locations", BOOL, True, True),
        ("jax2tf_associative_scan_reductions", BOOL, False, "jax2tf_associative_scan_reductions"),
        ("log_checkpoint_residuals", BOOL, False, True),
        ("memory_fitting_effort", number(float), 0.0, True),
        ("memory_fitting_level", _EFFORT, "O2", True),
        ("mock_gpu_topology", string(), "", True),
        ("mutable_array_checks", BOOL, True, True),
        ("optimization_level", _EFFORT, "UNKNOWN", True),
        ("pallas_enable_debug_checks", BOOL, False, True),
        ("pallas_use_mosaic_gpu", BOOL, True, True),
        ("pallas_verbose_errors", BOOL, False, True),
        ("persistent_cache_enable_xla_caches", string(),
         "xla_gpu_per_fusion_autotune_cache_dir", True),
        ("persistent_cache_min_entry_size_bytes", number(int), 0, True),
        ("pgle_aggregation_percentile", number(int), 90, True),
        ("pgle_profiling_runs", number(int), 3, True),
        ("pjrt_client_create_options", string(optional=True), None, True),
        ("raise_persistent_cache_errors", BOOL, False, True),
        ("random_seed_offset", number(int), 0, True),
        ("refs_to_pins", BOOL, False, True),
        ("remat3", BOOL, False, True),
        ("remove_custom_partitioning_ptr_from_cache_key", BOOL, False, True),
        ("remove_size_one_mesh_axis_from_type", BOOL, False, True),
        ("rocm_visible_devices", string(), "all", True),
        ("scan3", BOOL, False, True),
        ("send_traceback_to_runtime", string(), "off", True),
        ("serialization_version", number(int), 0, True),
        ("share_binary_between_hosts", BOOL, False, True),
        ("share_binary_between_hosts_timeout_ms", number(int), 1_200_000, True),
        ("source_url_schema", string(optional=True), None, True),
        ("threefry_gpu_kernel_lowering", BOOL, False, True),
        ("traceback_in_locations_limit", number(int), 100, True),
        ("use_direct_linearize", BOOL, True, True),
        ("use_magma", choice("off", "on", "auto"), "auto", True),
        ("use_shardy_partitioner", BOOL, True, True),
        ("use_simplified_jaxpr_constants", BOOL, False, True),
        ("xla_profile_version", number(int), 0, True),
        ("xla_backend", string(), "", True),
        ("jax2tf_default_native_serialization", BOOL, True, "jax2tf_default_native_serialization"),
        ("backend_target", string(), "", True),
        ("check_proxy_envs", BOOL, True, True),
        ("compiler_detailed_logging_min_ops", number(int), 10, True),
        ("cross_host_transfer_socket_address", string(), "", True),
        ("cross_host_transfer_timeout_seconds", number(int, optional=True), None, True),
        ("cross_host_transfer_transfer_size", number(int, optional=True), None, True),
        ("cross_host_transport_addresses", string(), "", True),
        ("dump_ir_modes", string(), "stablehlo", True),
        ("force_dcn_cross_host_transfers", BOOL, False, True),
        ("mosaic_allow_hlo", BOOL, False, True),
        ("oneapi_visible_devices", string(), "all", True),
        ("pallas_poison_buffers", BOOL, False, True),
        ("ragged_dot_use_gpu_pallas_triton_lowering", BOOL, False, True),
        ("ragged_dot_use_ragged_dot_instruction", BOOL, True, True),
        ("sort_devices_by_process_index", BOOL, True, True),
        ("use_emit_pipeline_primitive", BOOL, False, True),
    )
)  # fmt: skip
