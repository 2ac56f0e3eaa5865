"""The element types there are: the table of plain dtypes, and extended ones such as random keys."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from covector._base.named_tuple import NamedTuple


class extended(np.generic):
    """Scalar type of every dtype that is not NumPy's: the base of a category of dtypes."""


class prng_key(extended):
    """Scalar type of random keys: ``issubdtype(key.dtype, prng_key)``."""


class ExtendedDType:
    """A dtype of our own. Its elements are opaque; each is stored as one element of `physical`."""

    __slots__ = ("itemsize", "name", "physical", "type")

    def __init__(self, name: str, scalar: type[extended], physical: np.dtype[Any]):
        self.name: Final = name
        self.type: Final = scalar
        self.physical: Final = physical
        self.itemsize: Final = physical.itemsize

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash((self.type, self.name))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ExtendedDType)
            and self.type is other.type
            and self.name == other.name
            and self.physical == other.physical
        )


class KeyType(ExtendedDType):
    """The dtype of random keys of one generator, printed ``key<tag>``.

    An element of threefry is one opaque 64-bit word: its two ``uint32`` words, the first in the
    low half (so that a little-endian view as ``uint32`` gives them in order). Wider generators
    store their words as raw bytes.
    """

    __slots__ = ("impl", "tag", "words")

    def __init__(self, impl: str, tag: str, words: int):
        physical = np.dtype(np.uint64) if words == 2 else np.dtype(f"V{4 * words}")
        super().__init__(f"key<{tag}>", prng_key, physical)
        self.impl: Final = impl
        self.tag: Final = tag
        self.words: Final = words

    def __reduce__(self) -> Any:
        return register_key_type, (self.impl, self.tag, self.words)


_key_types: Final[dict[str, KeyType]] = {}


def register_key_type(impl: str, tag: str, words: int) -> KeyType:
    """The key type of a generator with keys of `words` 32-bit words, made on the first call."""
    known = _key_types.get(impl)
    if known is None:
        return _key_types.setdefault(impl, KeyType(impl, tag, words))
    if (known.tag, known.words) != (tag, words):
        raise ValueError(
            f"generator {impl!r} has key type {known} of {known.words} words already; "
            f"got tag {tag!r} and {words} words"
        )
    return known


def key_type(impl: str) -> KeyType:
    """The key type of a registered generator, by the generator's name."""
    try:
        return _key_types[impl]
    except KeyError:
        raise ValueError(
            f"unknown random generator {impl!r}; there are {', '.join(map(repr, _key_types))}"
        ) from None


threefry_key: Final = register_key_type("threefry2x32", "fry", 2)
register_key_type("rbg", "rbg", 4)
register_key_type("unsafe_rbg", "urbg", 4)

# The type of tangents of integers and booleans: it has no values, hence no bytes.
float0: Final[np.dtype[Any]] = np.dtype([("float0", np.void, 0)])

DType: TypeAlias = "np.dtype[Any]"
AnyDType: TypeAlias = "np.dtype[Any] | ExtendedDType"


class Entry(NamedTuple):
    """What there is to know of a plain dtype."""

    dtype: np.dtype[Any]
    short: str  # as in a printed program
    kind: str  # b, i, u, f or c; NumPy says V for most of ml_dtypes
    bits: int


_PYTHON_KIND: Final = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_KIND_CATEGORY: Final = {
    "b": np.bool_,
    "i": np.signedinteger,
    "u": np.unsignedinteger,
    "f": np.floating,
    "c": np.complexfloating,
}


def _entries() -> dict[np.dtype[Any], Entry]:
    standard = [("bool", "bool", "b", 8)]
    standard += [(f"int{n}", f"i{n}", "i", n) for n in (8, 16, 32, 64)]
    standard += [(f"uint{n}", f"u{n}", "u", n) for n in (8, 16, 32, 64)]
    standard += [(f"float{n}", f"f{n}", "f", n) for n in (16, 32, 64)]
    standard += [(f"complex{n}", f"c{n}", "c", n) for n in (64, 128)]
    narrow = [("bfloat16", "bf16", "f", 16)]
    narrow += [(f"int{n}", f"i{n}", "i", n) for n in (1, 2, 4)]
    narrow += [(f"uint{n}", f"u{n}", "u", n) for n in (1, 2, 4)]
    for n, formats in (
        (8, ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")),
        (6, ("e2m3fn", "e3m2fn")),
        (4, ("e2m1fn",)),
    ):
        narrow += [(f"float{n}_{fmt}", f"f{n}_{fmt}", "f", n) for fmt in formats]
    rows = [(np.dtype(name), *rest) for name, *rest in standard]
    # A release of ml_dtypes may lack the newest of them.
    rows += [
        (np.dtype(getattr(ml_dtypes, name)), *rest)
        for name, *rest in narrow
        if hasattr(ml_dtypes, name)
    ]
    return {row[0]: Entry(*row) for row in rows}  # type: ignore[arg-type]


ENTRIES: Final = _entries()
BY_NAME: Final[dict[str, np.dtype[Any]]] = {dtype.name: dtype for dtype in ENTRIES}
BY_NAME["float0"] = float0

# What becomes of 64-bit types while enable_x64 is off.
NARROWED: Final = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        ("float64", "float32"),
        ("int64", "int32"),
        ("uint64", "uint32"),
        ("complex128", "complex64"),
    )
}

python_kinds: Final[dict[np.dtype[Any], type]] = {
    dtype: _PYTHON_KIND[entry.kind] for dtype, entry in ENTRIES.items()
}
# NumPy knows nothing of the place of ml_dtypes in its hierarchy.
foreign_categories: Final[dict[type, type]] = {
    dtype.type: _KIND_CATEGORY[entry.kind]
    for dtype, entry in ENTRIES.items()
    if not issubclass(dtype.type, _KIND_CATEGORY[entry.kind])
}
_short_names: Final[dict[Any, str]] = {d: entry.short for d, entry in ENTRIES.items()}
_short_names[float0] = "float0"


def all_dtypes() -> list[np.dtype[Any]]:
    """Every plain dtype there is, float0 included."""
    return [*ENTRIES, float0]


def short_name(dtype: Any) -> str:
    """The name in printed programs: ``f32``, ``i32``, ``bool``, ``bf16``, ``key<fry>``."""
    short = _short_names.get(dtype)
    return short if short is not None else str(getattr(dtype, "name", dtype))


def physical_dtype(dtype: AnyDType) -> np.dtype[Any]:
    """The NumPy dtype in which elements are stored; for plain dtypes the dtype itself."""
    return dtype.physical if isinstance(dtype, ExtendedDType) else dtype


def itemsize_bits(dtype: Any) -> int:
    """Bits per element: 4 for ``int4`` although NumPy spends a byte on it.

    Raises ValueError for dtypes without a bit pattern of their own (keys, float0).
    """
    if not isinstance(dtype, ExtendedDType):
        entry = ENTRIES.get(np.dtype(dtype))
        if entry is not None:
            return entry.bits
    raise ValueError(f"itemsize_bits: elements of {dtype} are not made of bits that mean anything")


def kind_of(dtype: AnyDType) -> str:
    """``b``, ``i``, ``u``, ``f`` or ``c``; ``k`` for extended dtypes; ``0`` for float0."""
    entry = ENTRIES.get(dtype)  # type: ignore[arg-type]
    if entry is not None:
        return entry.kind
    return "k" if isinstance(dtype, ExtendedDType) else "0" if dtype == float0 else "?"
