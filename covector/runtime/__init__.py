"""Arrays, the pool, entry points, eager evaluation."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.runtime import callbacks as callbacks
    from covector.runtime import debug_keys as debug_keys
    from covector.runtime import debug_values as debug_values
    from covector.runtime import donation as donation
    from covector.runtime import interchange as interchange
    from covector.runtime import sequence as sequence

from covector import _wiring as _wiring  # after the door is made: it comes in here
