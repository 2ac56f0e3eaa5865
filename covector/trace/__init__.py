"""Tracers and staging: from a Python function to a Jaxpr."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.trace import purity as purity
    from covector.trace import purity_leaks as purity_leaks

#: `watch(((number, value), …))`: a context giving a set, to which it adds the numbers of the arrays
#: whose elements are looked at meanwhile; filled by the wiring.
watchers: Final[list[Callable[[Sequence[Any]], AbstractContextManager[set[int]]]]] = []

from covector import _wiring as _wiring  # noqa: E402  (after the door is made: it comes in here)
