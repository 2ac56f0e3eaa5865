"""Control flow as operations that hold programs: `while`, `scan`, `cond`.

A nested program has no constants of its own: what it captures are arguments of the operation.
"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.ops.control.branch import Cond
    from covector.ops.control.loop import While
    from covector.ops.control.parts import over_batch, silent_parts
    from covector.ops.control.replay import Replay, ReplayBack
    from covector.ops.control.scan import Scan
    from covector.ops.control.solve import LinearSolve

__all__ = [
    "Cond",
    "LinearSolve",
    "Replay",
    "ReplayBack",
    "Scan",
    "While",
    "over_batch",
    "silent_parts",
]
