"""The digest that names what is kept on disk: BLAKE2b, 32 bytes.

Taken from where `hashlib` has it, since `hashlib` itself loads a library for TLS.
"""

from __future__ import annotations

from typing import Any

try:
    from _blake2 import blake2b
except ImportError:  # it is private to CPython
    from hashlib import blake2b


def digest(data: bytes | str = b"") -> Any:
    """As of `hashlib.blake2b`: an object with `update`, `digest` and `hexdigest`.

    >>> digest("abc").hexdigest()[:8]
    'bddd813c'
    """
    return blake2b(data.encode() if isinstance(data, str) else data, digest_size=32)
