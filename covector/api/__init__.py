"""Transformations as users call them: `jit`, `grad`, `vmap`, …"""

from covector import _wiring as _wiring
