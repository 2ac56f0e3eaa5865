"""Loop program to LLVM text: explicit vectors, each instruction in the outermost loop it needs.

`kernel.emit` is the door.  From the leaves up: `types`, `ssa` (instructions, scopes, loops),
`text` (the printer), `arith` and `convert` (scalar expressions), `address`, `memory`, `tile`,
`fold`, `statements`, `kernel`.  Folds and tiles are loaded with the first of them.
"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.backends.cpu.emit import fold as fold
    from covector.backends.cpu.emit import tile as tile
