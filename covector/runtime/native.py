"""The socket for the native runtime: compiled code that makes arrays, frees memory, calls programs.

A backend offers it with `offer` before the first array class exists; whoever asks first
(`native`) settles the matter.  COVECTOR_NATIVE_RUNTIME=0 keeps to Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

#: The steps for (array, integer), of which the integer is a run-time symbol: see `runtime.rows`.
ROW: Final = (("ARGUMENT", 0, None), ("LEAF", 0, None), ("ARGUMENT", 1, None), ("INTEGER", 0, None))


class Native(Protocol):
    """What the native runtime gives."""

    allocator: Any
    #: The program that runs others in sequence (`runtime.sequence`).
    run_sequence: int
    #: Those that read and write one row (`runtime.rows`).
    read_row: int
    write_row: int

    def array_type(self, cls: type) -> type:
        """`cls` (its methods; two slots: aval, buffer; sharding) as a type with native parts."""
        ...

    def entry_type(self, cls: type) -> type:
        """`cls` as a type whose instances are called natively."""
        ...

    def connect(self, resolve: Callable[[Any], Any], from_numpy: Callable[[Any], Any]) -> None:
        """`resolve(x)` waits for, or refuses, an array without memory; `from_numpy` makes an array
        of a NumPy array."""
        ...

    def helper_type(self, helper: type, update: type) -> Any:
        """A descriptor like `property(helper)`, whose items are `update(x, item)`, named tuples."""
        ...

    def add_record(self, entry: Any, pattern: Any, record: Any, always: bool) -> None:
        """Files a record of an entry under a pattern; always: whatever the quiet word says."""
        ...

    def clear_records(self, entry: Any) -> None:
        """Forgets the records of an entry."""
        ...

    def swap_records(self, entry: Any, records: Any) -> Any:
        """Gives an entry other records (what this returned before, or None); returns its own."""
        ...

    def record_count(self, entry: Any) -> int:
        """How many records an entry has."""
        ...

    def set_operator(self, name: str, entry: Any) -> None:
        """Puts an entry before the Python function of an operator of the array type."""
        ...

    def set_scalars(self, weak_float: Any, weak_int: Any, strong_bool: Any, wide: bool) -> None:
        """The avals of Python numbers under the current options."""
        ...

    def set_method(self, name: str, method: Any) -> bool:
        """Takes the Python function of a native operator of the array type; False if none is."""
        ...

    def host(self, x: Any) -> np.ndarray:
        """The read-only NumPy array over an array's memory."""
        ...

    def copy_in(self, elements: np.ndarray, nbytes: int, offset: int = 0) -> Any:
        """A buffer with a copy of so many bytes of a NumPy array (C order) from an offset on."""
        ...

    def wrap(self, aval: Any, buffer: Any, sharding: Any = ...) -> Any:
        """An array."""
        ...

    def replace_buffer(self, x: Any, buffer: Any) -> None:
        """Gives an array another buffer, or what stands for one."""
        ...

    def adopt(self, elements: np.ndarray, nbytes: int) -> Any:
        """A buffer that keeps a NumPy array and uses its memory."""
        ...


_offers: Final[list[Callable[[], Native | None]]] = []
_settled: Final[list[Native | None]] = []


def offer(load: Callable[[], Native | None]) -> None:
    """Offers a native runtime: `load` gives it, or None where it does not work.

    Raises RuntimeError once the array class exists.
    """
    if _settled:
        raise RuntimeError("the native runtime must be offered before covector.runtime.array loads")
    _offers.append(load)


def native() -> Native | None:
    """The native runtime, or None: then everything is done in Python."""
    if not _settled:
        wanted = os.environ.get("COVECTOR_NATIVE_RUNTIME", "1").lower() not in ("0", "off", "false")
        found = (load() for load in _offers) if wanted else iter(())
        _settled.append(next((n for n in found if n is not None), None))
    return _settled[0]
