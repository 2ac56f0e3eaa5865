"""What the array API standard (data-apis.org) asks a namespace about itself."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from covector import dtypes
from covector.runtime.device import devices

#: Kinds of dtypes by the standard's words, and the dtypes of each with 64 bits enabled.
KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


@final
class ArrayNamespaceInfo:
    """Dtypes, devices and abilities, as the array API standard asks for them.

    Its functions take a device and answer the same for all.

    >>> import covector.numpy as cnp
    >>> sorted(cnp.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32']
    """

    def capabilities(self) -> dict[str, Any]:
        """What depends on values is not there while tracing, so it is not promised."""
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 64,
        }

    def default_device(self) -> None:
        """None: where arrays go without a word."""

    def devices(self) -> list[Any]:
        """None, for the default, and all devices."""
        return [None, *devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of results where none is given, by kind; `indexing`: of positions."""
        del device
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.default_int(),
            "indexing": dtypes.default_int(),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name: all, or those of a kind, or of a tuple of kinds."""
        del device
        kind = ("bool", "numeric") if kind is None else kind
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if k not in KINDS:
                raise KeyError(f"dtypes: kind must be of {list(KINDS)}; got {k!r}")
        found = [np.dtype(name) for k in kinds for name in KINDS[k]]
        return {x.name: x for x in found if dtypes.canonical(x) == x}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Answers about this namespace, by the array API standard."""
    return ArrayNamespaceInfo()
