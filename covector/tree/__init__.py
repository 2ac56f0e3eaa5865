"""Pytrees: nested containers of arrays, taken apart and put together.

The package is the public namespace ``covector.tree``; ``covector.tree_util`` has the same functions
under their long names, and the ones that make classes nodes. `_treedef` and `_nodes` hold the
mechanism.
"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.tree import _wire as _wire
    from covector.tree._register import static

from ._functions import tree_all as all
from ._functions import tree_broadcast as broadcast
from ._functions import tree_flatten as flatten
from ._functions import tree_flatten_with_path as flatten_with_path
from ._functions import tree_leaves as leaves
from ._functions import tree_leaves_with_path as leaves_with_path
from ._functions import tree_map as map
from ._functions import tree_map_with_path as map_with_path
from ._functions import tree_reduce as reduce
from ._functions import tree_reduce_associative as reduce_associative
from ._functions import tree_structure as structure
from ._functions import tree_transpose as transpose
from ._functions import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
