"""``functools.partial`` as a tree: its arguments are children, its function is metadata."""

from __future__ import annotations

import functools
from typing import Any

from ._register import register_pytree_node


class Partial(functools.partial):  # type: ignore[type-arg]
    """A function with some arguments filled in, which can be passed to transformed functions.

    The arguments are children, so they may be arrays and are traced; the function is metadata and
    is compared by ``==``. Otherwise as ``functools.partial``.

    >>> from covector.tree_util import tree_leaves
    >>> add = Partial(lambda x, y: x + y, 1)
    >>> add(2), tree_leaves(add)
    (3, [1])
    """

    def __new__(cls, func: Any, *args: Any, **kw: Any):
        # functools.partial would merge the arguments of an inner partial with its own, so that the
        # structure would depend on how the function was made.
        if isinstance(func, functools.partial):
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **kw)


class _Opaque:
    """A callable that is not an instance of ``functools.partial``."""

    __slots__ = ("function",)

    def __init__(self, function: Any):
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opaque) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


def _rebuild(function: Any, children: Any) -> Partial:
    args, keywords = children
    return Partial(function, *args, **keywords)


register_pytree_node(
    Partial, lambda partial: ((partial.args, partial.keywords), partial.func), _rebuild
)
