"""Transformations as users call them: `jit`, `grad`, `vmap`, …"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.api import inspect as inspect
    from covector.api import stages as stages

from covector import _wiring as _wiring  # after the door is made: it comes in here
