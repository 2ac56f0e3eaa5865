"""Arrays in files: NumPy's formats, read as arrays of ours."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from covector import dtypes
from covector.numpy._creation import asarray


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a .npy file, or the arrays in an .npz file by name.

    Elements of dtypes that NumPy does not know, such as bfloat16, are read back as such if they
    were written by `save` of this module's door.  Other arguments are those of `numpy.load`.

    >>> import io
    >>> import covector.numpy as cnp
    >>> file = io.BytesIO()
    >>> cnp.save(file, cnp.arange(3))
    >>> _ = file.seek(0)
    >>> cnp.load(file).tolist()
    [0, 1, 2]
    """
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    if out.dtype.kind == "V" and out.dtype.itemsize == 2:  # how NumPy writes bfloat16
        out = out.view(dtypes.bfloat16)
    return asarray(out)


def fromfile(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there: use `asarray(numpy.fromfile(...))`; a file read while tracing would be frozen."""
    raise NotImplementedError("fromfile: read the file with NumPy, then call asarray")


def fromiter(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there: use `asarray(numpy.fromiter(...))`; an iterator is consumed while tracing."""
    raise NotImplementedError("fromiter: read the iterator with NumPy, then call asarray")
