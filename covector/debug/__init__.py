"""Looking at values of a running program; `python -m covector.debug.coverage` looks at rules."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.api.breakpoint import debug_breakpoint as breakpoint
    from covector.api.callbacks import debug_callback as callback
    from covector.api.callbacks import debug_log as log
    from covector.api.callbacks import debug_print as print

from covector import _wiring as _wiring  # after the door is made: it comes in here

__all__ = ["breakpoint", "callback", "log", "print"]
