"""SciPy's functions, over arrays of this library: `special`, `stats`, `linalg`."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.scipy import linalg, special, stats

from covector import _wiring as _wiring  # after the door is made: it comes in here

__all__ = ["linalg", "special", "stats"]
