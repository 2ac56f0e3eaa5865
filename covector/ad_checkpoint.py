"""Public door: `checkpoint` and what belongs to it, by the names of ``jax.ad_checkpoint``."""

from covector.api.checkpoint import (
    Residual,
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    print_saved_residuals,
    remat,
    saved_residuals,
)
from covector.ops.remat import Offloadable, Recompute, Saveable

__all__ = [
    "Offloadable",
    "Recompute",
    "Residual",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
