"""Keys: random numbers are functions of a key, and keys are made from seeds and from keys.

A key is one element of dtype `key<fry>` (two 32-bit words of threefry2x32; Salmon, Moraes, Dror and
Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).  Arrays of two uint32 along the last
axis, as `PRNGKey` gives, are taken as keys too.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from covector import dtypes
from covector import numpy as cnp
from covector._base.config import config
from covector._base.source import user_stacklevel
from covector.ir.values import typeof
from covector.ops import random_bits as bits_ops

#: The generators that have rules; of others the names are known.
IMPLEMENTATIONS = ("threefry2x32",)
_KNOWN = (*IMPLEMENTATIONS, "rbg", "unsafe_rbg")


def _implementation(spec: Any, who: str, dtype: Any = None) -> str:
    """The name of the generator that `impl=` or `dtype=` of a public function asks for."""
    if dtype is not None:
        if spec is not None:
            raise ValueError(f"{who}: give impl or dtype, not both")
        spec = dtype
    if spec is None:
        spec = config.default_prng_impl
    name = spec.impl if isinstance(spec, dtypes.KeyType) else spec
    if not isinstance(name, str):
        raise TypeError(f"{who}: a generator is given by its name or key dtype; got {spec!r}")
    if name not in _KNOWN:
        raise ValueError(
            f"{who}: unrecognized PRNG implementation {name!r}; there is {IMPLEMENTATIONS[0]!r}"
        )
    if name not in IMPLEMENTATIONS:
        raise NotImplementedError(
            f"{who}: the generator {name!r} is not there; use {IMPLEMENTATIONS[0]!r}"
        )
    return name


def is_key(x: Any) -> bool:
    """Whether `x` is an array of keys."""
    return isinstance(getattr(x, "dtype", None), dtypes.KeyType)


def as_key(key: Any, who: str) -> tuple[Any, bool]:
    """(one key, whether it was given as one).  TypeError or ValueError naming `who` otherwise."""
    keys, typed = as_keys(key, who)
    if keys.ndim:
        raise ValueError(
            f"{who} accepts a single key, but was given a key array of shape {keys.shape}; use "
            f"vmap for batching"
        )
    return keys, typed


def as_keys(key: Any, who: str) -> tuple[Any, bool]:
    """(an array of keys, whether it was given as one)."""
    if is_key(key):
        return key, True
    dtype = getattr(key, "dtype", None)
    if dtype == np.uint32 and key.shape and key.shape[-1] == 2:
        _mind_legacy(who)
        return bits_ops.random_wrap(key), False
    what = f"{dtype}{list(key.shape)}" if dtype is not None else f"{key!r} of type {type(key)}"
    raise TypeError(
        f"{who}: unexpected PRNG key {what}; make one with random.key(seed) or random.PRNGKey(seed)"
    )


def _mind_legacy(who: str) -> None:
    """Warn of a key of two uint32, or refuse it, as the option `legacy_prng_key` says."""
    mode = config.legacy_prng_key
    if mode == "allow":
        return
    message = (
        f"{who}: got a legacy key, an array of uint32; make keys with random.key(), or set "
        f"legacy_prng_key='allow'"
    )
    if mode == "error":
        raise ValueError(message)
    warnings.warn(message, UserWarning, stacklevel=user_stacklevel())


def _like(keys: Any, typed: bool) -> Any:
    return keys if typed else bits_ops.random_unwrap(keys)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """A key from an integer seed (Python's, or a scalar array); equal seeds give equal keys.

    impl, dtype: the generator, by name or by its key dtype.  Raises TypeError for a seed that is
    no integer scalar, OverflowError for one of more than 64 bits.

    >>> from covector import random
    >>> random.key(0).shape
    ()
    """
    name = _implementation(impl, "key", dtype)
    return bits_ops.random_seed(_seed(seed, "key"), name)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """As `key`, as an array of two uint32 (a key, under the option `enable_custom_prng`).

    >>> from covector import random
    >>> random.PRNGKey(42).tolist()
    [0, 42]
    """
    name = _implementation(impl, "PRNGKey")
    made = bits_ops.random_seed(_seed(seed, "PRNGKey"), name)
    return _like(made, config.enable_custom_prng)


def _seed(seed: Any, who: str) -> Any:
    if is_key(seed):
        raise TypeError(f"{who} accepts a scalar seed, but was given a PRNG key")
    if isinstance(seed, int):
        if not -(1 << 63) <= seed < 1 << 63:
            raise OverflowError(f"{who}: the seed {seed} does not fit into 64 bits")
        # of a seed of 64 bits the low ones count where integers have only 32
        wide = 8 * dtypes.default_int().itemsize
        low = (seed + config.random_seed_offset) & ((1 << wide) - 1)
        return np.asarray(low, f"uint{wide}").astype(f"int{wide}")
    aval = typeof(seed)
    if aval.shape:
        raise TypeError(f"{who} accepts a scalar seed; got one of shape {aval.shape}: use vmap")
    if not dtypes.issubdtype(aval.dtype, np.integer) and aval.dtype != np.bool_:
        raise TypeError(f"{who}: PRNG key seed must be an integer; got {seed!r}")
    offset = config.random_seed_offset
    return cnp.add(seed, offset) if offset else seed


def split(key: Any, num: int | tuple[int, ...] = 2) -> Any:
    """`num` new keys (or an array of them of shape `num`), independent of one another.

    >>> from covector import random
    >>> random.split(random.key(0), 3).shape
    (3,)
    """
    keys, typed = as_key(key, "split")
    shape = tuple(num) if isinstance(num, (tuple, list)) else (operator.index(num),)
    return _like(bits_ops.random_split(keys, tuple(map(operator.index, shape))), typed)


def fold_in(key: Any, data: Any) -> Any:
    """A new key, a function of `key` and the integer `data`, of which 32 bits count.

    Raises OverflowError for a Python int beyond uint32, TypeError for an array with axes.

    >>> from covector import random
    >>> random.fold_in(random.key(0), 7).shape
    ()
    """
    keys, typed = as_key(key, "fold_in")
    if isinstance(data, (int, float)):
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"fold_in: data must lie between 0 and 2**32 - 1; got {data}")
        return _like(bits_ops.random_fold_in(keys, np.uint32(int(data))), typed)
    aval = typeof(data)
    if aval.shape:
        raise TypeError(f"fold_in accepts a scalar; got data of shape {aval.shape}: use vmap")
    if is_key(data) or dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(f"fold_in: data must be an integer; got {aval.str_short()}")
    return _like(bits_ops.random_fold_in(keys, cnp.asarray(data, np.uint32)), typed)


def key_data(keys: Any) -> Any:
    """The words of keys: uint32, with one more axis of size 2.

    >>> from covector import random
    >>> random.key_data(random.key(5)).tolist()
    [0, 5]
    """
    keys, _ = as_keys(keys, "key_data")
    return bits_ops.random_unwrap(keys)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Keys from their words, the inverse of `key_data`.

    Raises TypeError unless these are uint32, two along the last axis.

    >>> from covector import random
    >>> random.wrap_key_data(cnp.zeros((3, 2), "uint32")).shape
    (3,)
    """
    name = _implementation(impl, "wrap_key_data", dtype)
    return bits_ops.random_wrap(cnp.asarray(key_bits_array), name)


def key_impl(keys: Any) -> str:
    """The name of the generator that keys belong to.

    >>> from covector import random
    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    found, _ = as_keys(keys, "key_impl")
    return found.dtype.impl


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of the keys of a generator, given by its name.

    >>> from covector import random
    >>> random.key_dtype()
    key<fry>
    """
    return dtypes.key_type(_implementation(impl_spec, "key_dtype"))


def clone(key: Any) -> Any:
    """The same key, said to be used again on purpose: `debug_key_reuse` takes it for a new one.

    >>> from covector import random
    >>> random.clone(random.key(0)).shape
    ()
    """
    if not is_key(key):
        return cnp.asarray(key)
    return bits_ops.random_wrap(bits_ops.random_unwrap(key)) if config.debug_key_reuse else key
