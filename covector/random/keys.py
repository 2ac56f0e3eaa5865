"""Keys: random numbers are functions of a key, and keys are made from seeds and from keys.

A key is one element of dtype `key<fry>` (two 32-bit words of threefry2x32; Salmon, Moraes, Dror and
Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).  Arrays of two uint32 along the last
axis, as `PRNGKey` gives, are taken as keys too.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from covector import dtypes
from covector import numpy as cnp
from covector.ir.values import typeof
from covector.ops import random_bits as bits_ops

IMPLEMENTATIONS = ("threefry2x32",)


def _implementation(impl: Any) -> str:
    name = "threefry2x32" if impl is None else getattr(impl, "name", impl)
    if name == "fry":
        name = "threefry2x32"
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"unrecognized PRNG implementation {impl!r}; there is {IMPLEMENTATIONS}")
    return name


def is_key(x: Any) -> bool:
    """Whether `x` is an array of keys."""
    return isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType)


def as_key(key: Any, who: str) -> tuple[Any, bool]:
    """(one key, whether it was given as one).  TypeError or ValueError naming `who` otherwise."""
    keys, typed = as_keys(key, who)
    if typeof(keys).ndim:
        raise ValueError(
            f"{who} accepts a single key, but was given a key array of shape "
            f"{typeof(keys).shape}; use vmap for batching"
        )
    return keys, typed


def as_keys(key: Any, who: str) -> tuple[Any, bool]:
    """(an array of keys, whether it was given as one)."""
    if is_key(key):
        return key, True
    dtype = getattr(key, "dtype", None)
    if dtype == np.uint32 and key.shape and key.shape[-1] == 2:
        return bits_ops.random_wrap(key), False
    what = f"{dtype}{list(key.shape)}" if dtype is not None else f"{key!r} of type {type(key)}"
    raise TypeError(
        f"{who}: unexpected PRNG key {what}; make one with random.key(seed) or random.PRNGKey(seed)"
    )


def _like(keys: Any, typed: bool) -> Any:
    return keys if typed else bits_ops.random_unwrap(keys)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A key from an integer seed (Python's, or a scalar array); equal seeds give equal keys.

    Raises TypeError for a seed that is no integer scalar.

    >>> from covector import random
    >>> random.key(0).shape
    ()
    """
    if dtype is not None and impl is not None:
        raise ValueError("random.key: give impl or dtype, not both")
    return bits_ops.random_seed(_seed(seed, "random.key"), _implementation(impl))


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """As `key`, as an array of two uint32.

    >>> from covector import random
    >>> random.PRNGKey(42).tolist()
    [0, 42]
    """
    _implementation(impl)
    return bits_ops.random_unwrap(bits_ops.random_seed(_seed(seed, "random.PRNGKey")))


def _seed(seed: Any, who: str) -> Any:
    if is_key(seed):
        raise TypeError(f"{who} accepts a scalar seed, but was given a PRNG key")
    if isinstance(seed, int):
        # A seed may need 64 bits; the low ones count where only 32 are kept.
        wide = 64 if dtypes.default_int().itemsize == 8 else 32
        seed = np.asarray(seed & ((1 << wide) - 1), f"uint{wide}").astype(f"int{wide}")
    aval = typeof(seed)
    if aval.shape:
        raise TypeError(f"{who} accepts a scalar seed; got one of shape {aval.shape}: use vmap")
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"{who}: PRNG key seed must be an integer; got {seed!r}")
    return seed


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """`num` new keys (or an array of them of shape `num`), independent of one another.

    >>> from covector import random
    >>> random.split(random.key(0), 3).shape
    (3,)
    """
    keys, typed = as_key(key, "random.split")
    shape = tuple(num) if isinstance(num, (tuple, list)) else (operator.index(num),)
    return _like(bits_ops.random_split(keys, shape), typed)


def fold_in(key: Any, data: Any) -> Any:
    """A new key, a function of `key` and the integer `data`.

    >>> from covector import random
    >>> random.fold_in(random.key(0), 7).shape
    ()
    """
    keys, typed = as_key(key, "random.fold_in")
    data = cnp.asarray(data)
    if data.ndim:
        raise TypeError(f"random.fold_in accepts a scalar; got data of shape {data.shape}")
    if not dtypes.issubdtype(data.dtype, np.integer):
        raise TypeError(f"random.fold_in: data must be an integer; got dtype {data.dtype}")
    return _like(bits_ops.random_fold_in(keys, cnp.asarray(data, np.uint32)), typed)


def key_data(keys: Any) -> Any:
    """The words of keys: uint32, with one more axis of size 2.

    >>> from covector import random
    >>> random.key_data(random.key(5)).tolist()
    [0, 5]
    """
    keys, _ = as_keys(keys, "random.key_data")
    return bits_ops.random_unwrap(keys)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from their words, the inverse of `key_data`."""
    return bits_ops.random_wrap(cnp.asarray(key_bits_array), _implementation(impl or dtype))


def key_impl(keys: Any) -> str:
    """The name of the generator that keys belong to."""
    as_keys(keys, "random.key_impl")
    return "fry" if is_key(keys) else "threefry2x32"


def key_dtype(impl: Any = None) -> Any:
    """The dtype of keys."""
    _implementation(impl)
    return dtypes.threefry_key


def clone(key: Any) -> Any:
    """The same key, said to be used again on purpose."""
    return key
