"""What JAX keeps in its module of this name."""

from covector._base.config import enable_x64
from covector.api.callbacks import io_callback
from covector.api.callbacks import pure_callback as _pure_callback
from covector.experimental import checkify, jet

pure_callback = _pure_callback

__all__ = ["checkify", "enable_x64", "io_callback", "jet", "pure_callback"]
