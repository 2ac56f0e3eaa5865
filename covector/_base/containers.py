"""Small containers and helpers over sequences."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeGuard, TypeVar, overload

_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def unzip2(pairs: Iterable[tuple[_A, _B]]) -> tuple[tuple[_A, ...], tuple[_B, ...]]:
    """Pairs taken apart: ``[(a, b), ...]`` to ``(a, ...), (b, ...)``; two tuples even if empty."""
    pairs = list(pairs)
    return tuple([a for a, _ in pairs]), tuple([b for _, b in pairs])


def unzip3(
    triples: Iterable[tuple[_A, _B, _C]],
) -> tuple[tuple[_A, ...], tuple[_B, ...], tuple[_C, ...]]:
    """Triples taken apart."""
    triples = list(triples)
    return (
        tuple([a for a, _, _ in triples]),
        tuple([b for _, b, _ in triples]),
        tuple([c for _, _, c in triples]),
    )


def _refuse_lengths(what: str, sequences: Sequence[Sequence[Any]]) -> ValueError:
    lengths = ", ".join(str(len(s)) for s in sequences)
    return ValueError(f"{what} needs sequences of one length; got lengths {lengths}")


@overload
def safe_zip(a: Iterable[_A], /) -> list[tuple[_A]]: ...
@overload
def safe_zip(a: Iterable[_A], b: Iterable[_B], /) -> list[tuple[_A, _B]]: ...
@overload
def safe_zip(a: Iterable[_A], b: Iterable[_B], c: Iterable[_C], /) -> list[tuple[_A, _B, _C]]: ...
@overload
def safe_zip(*iterables: Iterable[Any]) -> list[tuple[Any, ...]]: ...
def safe_zip(*iterables: Iterable[Any]) -> list[Any]:
    """``list(zip(...))`` of sequences that must have one length; ValueError with the lengths."""
    sequences = [s if isinstance(s, (list, tuple)) else list(s) for s in iterables]
    if len({len(s) for s in sequences}) > 1:
        raise _refuse_lengths("safe_zip", sequences)
    return list(zip(*sequences, strict=True))


def safe_map(function: Callable[..., _V], *iterables: Iterable[Any]) -> list[_V]:
    """``list(map(...))`` of sequences that must have one length; ValueError with the lengths."""
    sequences = [s if isinstance(s, (list, tuple)) else list(s) for s in iterables]
    if len({len(s) for s in sequences}) > 1:
        name = getattr(function, "__name__", "a function")
        raise _refuse_lengths(f"mapping {name}", sequences)
    return list(map(function, *sequences))


def split_list(items: Sequence[_A], sizes: Iterable[int]) -> list[list[_A]]:
    """Consecutive pieces of the given sizes, and a last one with the rest.

    >>> split_list([1, 2, 3, 4], [1, 2])
    [[1], [2, 3], [4]]
    """
    pieces: list[list[_A]] = []
    start = 0
    for size in sizes:
        if size < 0 or start + size > len(items):
            raise ValueError(
                f"split_list: {len(items)} items cannot give {size} more after {start}"
            )
        pieces.append(list(items[start : start + size]))
        start += size
    pieces.append(list(items[start:]))
    return pieces


def partition(mask: Iterable[bool], items: Iterable[_A]) -> tuple[list[_A], list[_A]]:
    """The items where the mask is false, and those where it is true."""
    parts: tuple[list[_A], list[_A]] = ([], [])
    for chosen, item in safe_zip(mask, items):
        parts[bool(chosen)].append(item)
    return parts


def merge(mask: Iterable[bool], unchosen: Iterable[_A], chosen: Iterable[_A]) -> list[_A]:
    """The inverse of `partition`."""
    sources = iter(unchosen), iter(chosen)
    merged = [next(sources[bool(pick)]) for pick in mask]
    if any(next(source, _END) is not _END for source in sources):
        raise ValueError("merge: the mask is shorter than the two parts together")
    return merged


_END: Final = object()


def unique(items: Iterable[_K]) -> list[_K]:
    """The items without repetitions, in order of first appearance."""
    return list(dict.fromkeys(items))


class LRU(Generic[_K, _V]):
    """A dictionary of bounded size that forgets what was used longest ago; safe with threads.

    `get` counts hits and misses.
    """

    __slots__ = ("_data", "_lock", "hits", "maxsize", "misses")

    def __init__(self, maxsize: int):
        if maxsize < 1:
            raise ValueError(f"an LRU holds at least one item; got maxsize {maxsize}")
        self.maxsize: Final = maxsize
        self.hits = 0
        self.misses = 0
        self._data: dict[_K, _V] = {}  # oldest first
        self._lock: Final = threading.Lock()

    def get(self, key: _K, default: Any = None) -> Any:
        """The value of a key, which becomes the newest; `default` if there is none."""
        with self._lock:
            try:
                value = self._data.pop(key)
            except KeyError:
                self.misses += 1
                return default
            self._data[key] = value
            self.hits += 1
            return value

    def put(self, key: _K, value: _V) -> None:
        """Stores a value; the oldest entry goes if there are too many."""
        with self._lock:
            self._data.pop(key, None)
            self._data[key] = value
            if len(self._data) > self.maxsize:
                del self._data[next(iter(self._data))]

    def get_or_make(self, key: _K, make: Callable[[], _V]) -> _V:
        """The value of a key, made without the lock held if there is none.

        Of two threads that make it at once, both get the value stored first.
        """
        value = self.get(key, _END)
        if value is not _END:
            return value
        made = make()
        with self._lock:
            kept = self._data.setdefault(key, made)
            if len(self._data) > self.maxsize:
                del self._data[next(iter(self._data))]
        return kept

    def discard(self, key: _K) -> None:
        """Forgets a key, if it is there."""
        with self._lock:
            self._data.pop(key, None)

    def clear(self) -> None:
        """Forgets everything and restarts the counters."""
        with self._lock:
            self._data.clear()
            self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[_K]:
        with self._lock:
            return iter(list(self._data))


class WeakIdCache(Generic[_V]):
    """Values remembered per object, by identity, for as long as the object lives.

    For objects that are unhashable or compare by value. The objects must allow weak references.
    """

    __slots__ = ("__weakref__", "_data")

    def __init__(self) -> None:
        self._data: dict[int, tuple[weakref.ref[Any], _V]] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        """The value remembered for this very object."""
        entry = self._data.get(id(key))
        # The reference is compared too: an identity is reused as soon as its object is gone.
        return entry[1] if entry is not None and entry[0]() is key else default

    def put(self, key: Any, value: _V) -> _V:
        """Remembers a value for an object; TypeError if it allows no weak reference."""
        identity = id(key)
        data = self._data

        def forget(reference: weakref.ref[Any]) -> None:
            entry = data.get(identity)
            if entry is not None and entry[0] is reference:
                del data[identity]

        data[identity] = (weakref.ref(key, forget), value)
        return value

    def get_or_make(self, key: Any, make: Callable[[], _V]) -> _V:
        """The value remembered for an object, made if there is none."""
        value = self.get(key, _END)
        return self.put(key, make()) if value is _END else value

    def clear(self) -> None:
        """Forgets everything."""
        self._data.clear()

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return self.get(key, _END) is not _END


def is_listed(x: Any) -> TypeGuard[Sequence[Any]]:
    """Whether `x` is a list or a tuple (and, to a type checker, one of anything)."""
    return isinstance(x, (list, tuple))
