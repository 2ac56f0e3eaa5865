"""jvp, partial evaluation, transpose, vmap: interpreters of operations."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.transforms import jvp as jvp
    from covector.transforms import key_reuse as key_reuse
    from covector.transforms import tools as tools

from covector import _wiring as _wiring  # after the door is made: it comes in here
