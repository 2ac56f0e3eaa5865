"""Public door: the stages of a jitted function ahead of time, by the names of ``jax.stages``."""

from covector.api.stages import ArgInfo, Compiled, CompilerOptions, Lowered, Traced, Wrapped

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
