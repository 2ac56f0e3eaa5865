"""What JAX keeps in its module of this name."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector._base.config import enable_x64
    from covector.api.callbacks import io_callback, pure_callback
    from covector.experimental import checkify, jet

from covector import _wiring as _wiring  # after the door is made: it comes in here

__all__ = ["checkify", "enable_x64", "io_callback", "jet", "pure_callback"]
