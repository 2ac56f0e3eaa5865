"""Loop program to LLVM text: explicit vectors, each instruction in the outermost loop it needs.

`kernel.emit` is the door.  From the leaves up: `types`, `ssa` (instructions, scopes, loops),
`text` (the printer), `arith` and `convert` (scalar expressions), `address`, `memory`, `tile`,
`fold`, `statements`, `kernel`.
"""
