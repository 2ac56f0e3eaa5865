"""The code generator's version: part of every cache key, so that an old entry is never run."""

from __future__ import annotations

from typing import Final

#: Bumped by hand whenever the same loop program would give other machine code.
GENERATOR: Final = "1"
