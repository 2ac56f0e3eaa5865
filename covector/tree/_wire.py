"""Structures of plain containers as bytes, in the protocol buffer form that JAX uses.

The message, found by comparing outputs: field 1, repeated, holds the nodes in post-order, each with
its number of children (1), its kind (2) and, for a dict, the numbers of its keys (3, in it 1,
packed); field 2, repeated, holds the keys. Integers are varints (protobuf.dev, "Encoding").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ._nodes import nodes
from ._treedef import LEAF, PyTreeDef

_KINDS: Final[dict[type | None, int]] = {None: 1, list: 2, type(None): 3, tuple: 4, dict: 5}
_TYPES: Final = {number: kind for kind, number in _KINDS.items()}
_VARINT: Final = 0
_BYTES: Final = 2


def serialize(treedef: PyTreeDef) -> bytes:
    """The bytes of a structure made of tuples, lists, None and dicts with string keys.

    Raises ValueError for other nodes and other keys.
    """
    keys: dict[str, int] = {}
    out = bytearray()
    _write_node(treedef, keys, out)
    for key in keys:
        _write_bytes(2, key.encode(), out)
    return bytes(out)


def _write_node(treedef: PyTreeDef, keys: dict[str, int], out: bytearray) -> None:
    for child in treedef.child_defs:
        _write_node(child, keys, out)
    type_ = None if treedef.node is None else treedef.node.type
    kind = _KINDS.get(type_)
    if kind is None:
        raise ValueError(
            f"only tuples, lists, dicts and None can be serialized, not {type_}; use pickle, or "
            "convert the node to a plain container"
        )
    message = bytearray()
    if treedef.child_defs:
        _write_integer(1, len(treedef.child_defs), message)
    _write_integer(2, kind, message)
    if type_ is dict and treedef.child_defs:
        numbers = bytearray()
        for key in treedef.aux:
            if not isinstance(key, str):
                raise ValueError(f"only string keys can be serialized, not {key!r}")
            _write_varint(keys.setdefault(str(key), len(keys)), numbers)
        packed = bytearray()
        _write_bytes(1, numbers, packed)
        _write_bytes(3, packed, message)
    _write_bytes(1, message, out)


def _write_varint(value: int, out: bytearray) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_integer(field: int, value: int, out: bytearray) -> None:
    out.append(field << 3 | _VARINT)
    _write_varint(value, out)


def _write_bytes(field: int, value: bytes | bytearray, out: bytearray) -> None:
    out.append(field << 3 | _BYTES)
    _write_varint(len(value), out)
    out += value


def deserialize(data: bytes) -> PyTreeDef:
    """The structure that `serialize` wrote; ValueError if the bytes are not such."""
    messages: list[bytes] = []
    keys: list[str] = []
    for field, value in _fields(data):
        if field == 1:
            messages.append(_as_bytes(value))
        elif field == 2:
            keys.append(_as_bytes(value).decode())
    stack: list[PyTreeDef] = []
    for message in messages:
        stack.append(_read_node(message, keys, stack))
    if len(stack) != 1:
        raise _malformed(f"it holds {len(stack)} trees")
    return stack[0]


def _read_node(message: bytes, keys: list[str], stack: list[PyTreeDef]) -> PyTreeDef:
    """Takes the children of a node from the stack."""
    arity = kind = 0
    numbers: list[int] = []
    for field, value in _fields(message):
        if field == 1:
            arity = _as_integer(value)
        elif field == 2:
            kind = _as_integer(value)
        elif field == 3:
            numbers = [n for f, packed in _fields(_as_bytes(value)) if f == 1
                       for n in _varints(_as_bytes(packed))]  # fmt: skip
    if kind not in _TYPES:
        raise _malformed(f"there is no node kind {kind}")
    if arity > len(stack):
        raise _malformed("a node has more children than precede it")
    type_ = _TYPES[kind]
    children = tuple(stack[len(stack) - arity :])
    del stack[len(stack) - arity :]
    if type_ is None:
        if children:
            raise _malformed("a leaf has children")
        return LEAF
    if type_ is not dict:
        node: Any = nodes[type_]
        if type_ is type(None) and children:
            raise _malformed("None has children")
        return node.structure(None, children)
    if len(numbers) != arity or any(n >= len(keys) for n in numbers):
        raise _malformed("the keys of a dict do not match its children")
    node = nodes[dict]
    return node.structure(tuple([keys[n] for n in numbers]), children)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == _VARINT:
            yield tag >> 3, value
        elif tag & 7 == _BYTES and at + value <= len(data):
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            raise _malformed(f"a field is cut off or of wire type {tag & 7}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    raise _malformed("an integer is cut off")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _malformed("an integer stands where bytes belong")
    return value


def _as_integer(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise _malformed("bytes stand where an integer belongs")
    return value


def _malformed(why: str) -> ValueError:
    return ValueError(f"these bytes are no serialized PyTreeDef: {why}")
