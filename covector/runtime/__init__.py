"""Arrays, the pool, entry points, eager evaluation."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.runtime import callbacks as callbacks

from covector import _wiring as _wiring  # after the door is made: it comes in here
