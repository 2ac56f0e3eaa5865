"""Keys are arrays: they are indexed, shaped, stacked, compared, mapped over; and no numbers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import lax, random
from tests.random.oracle import assert_equal, jax, theirs

ROWS: dict[str, Callable[..., Any]] = {
    "index": lambda n, r, k, ks, m: ks[0],
    "negative": lambda n, r, k, ks, m: ks[-1],
    "slice": lambda n, r, k, ks, m: ks[1:3],
    "array": lambda n, r, k, ks, m: ks[np.array([2, 0])],
    "mask": lambda n, r, k, ks, m: ks[np.array([True, False, True, False])],
    "new axis": lambda n, r, k, ks, m: ks[:, None],
    "two indices": lambda n, r, k, ks, m: m[0, 1],
    "reshape": lambda n, r, k, ks, m: ks.reshape(2, -1),
    "ravel": lambda n, r, k, ks, m: m.ravel(),
    "transpose": lambda n, r, k, ks, m: m.T,
    "swapaxes": lambda n, r, k, ks, m: m.swapaxes(0, 1),
    "squeeze": lambda n, r, k, ks, m: ks[None].squeeze(0),
    "stack": lambda n, r, k, ks, m: n.stack([k, ks[1]]),
    "concatenate": lambda n, r, k, ks, m: n.concatenate([ks, ks[:1]]),
    "broadcast_to": lambda n, r, k, ks, m: n.broadcast_to(k, (3,)),
    "take": lambda n, r, k, ks, m: n.take(ks, np.array([1, 2])),
    "where": lambda n, r, k, ks, m: n.where(np.array([True, False, True, False]), ks, ks[::-1]),
    "flip": lambda n, r, k, ks, m: n.flip(ks),
    "roll": lambda n, r, k, ks, m: n.roll(ks, 1),
    "repeat": lambda n, r, k, ks, m: n.repeat(ks, 2),
    "tile": lambda n, r, k, ks, m: n.tile(ks, 2),
    "zeros_like": lambda n, r, k, ks, m: n.zeros_like(ks),
    "full": lambda n, r, k, ks, m: n.full((2,), k),
    "empty": lambda n, r, k, ks, m: n.empty((2,), k.dtype),
    "ones": lambda n, r, k, ks, m: n.ones((2,), k.dtype),
    "set": lambda n, r, k, ks, m: ks.at[1].set(k),
    "get": lambda n, r, k, ks, m: ks.at[9].get(),
    "equal": lambda n, r, k, ks, m: ks == ks[1],
    "unequal": lambda n, r, k, ks, m: ks != ks[1],
    "key_data": lambda n, r, k, ks, m: r.key_data(m),
    "wrapped": lambda n, r, k, ks, m: r.wrap_key_data(r.key_data(m)),
    "wrapped by dtype": lambda n, r, k, ks, m: r.wrap_key_data(r.key_data(m), dtype=k.dtype),
}


def samples(r: Any) -> tuple[Any, Any, Any]:
    return r.key(0), r.split(r.key(1), 4), r.split(r.key(3), (2, 2))


@pytest.mark.parametrize("name", ROWS)
def test_as_an_array(name: str) -> None:
    wanted = ROWS[name](jax.numpy, theirs, *samples(theirs))
    given = samples(random)
    assert_equal(ROWS[name](cnp, random, *given), wanted)
    assert_equal(cv.jit(lambda *xs: ROWS[name](cnp, random, *xs))(*given), wanted)


def test_attributes() -> None:
    key, keys, _ = samples(random)
    assert (key.shape, key.ndim, key.size, len(keys)) == ((), 0, 1, 4)
    assert isinstance(key, cv.Array)
    assert str(key.dtype) == repr(key.dtype) == "key<fry>"
    assert key.dtype == random.key_dtype() == random.key_dtype("threefry2x32") != np.uint32
    assert cnp.issubdtype(key.dtype, cv.dtypes.prng_key)
    assert cnp.issubdtype(key.dtype, cv.dtypes.extended)
    assert not cnp.issubdtype(key.dtype, np.integer)
    assert random.key_impl(key) == random.key_impl(random.PRNGKey(0)) == "threefry2x32"
    assert [k.shape for k in keys] == [()] * 4


@pytest.mark.parametrize("pick", [lambda r: r.key(0), lambda r: r.split(r.key(1), 4),
                                  lambda r: r.split(r.key(3), (2, 2)),
                                  lambda r: r.split(r.key(3), 0)])  # fmt: skip
def test_printed(pick: Any) -> None:
    wanted = repr(pick(theirs))
    assert wanted.startswith("Array(")
    assert repr(pick(random)) == str(pick(random)) == f"{pick(random)}" == wanted


def test_copies() -> None:
    keys = samples(random)[1]
    for other in (
        pickle.loads(pickle.dumps(keys)), copy.copy(keys), copy.deepcopy(keys),
        cv.device_put(keys), cv.device_get(keys), keys.copy(),
    ):  # fmt: skip
        assert other.dtype == keys.dtype
        assert bool((other == keys).all())


NO_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda k, ks: k + 1,
    "k + k": lambda k, ks: k + k,
    "*": lambda k, ks: 2 * k,
    "-": lambda k, ks: -k,
    "/": lambda k, ks: k / 2,
    "<": lambda k, ks: ks < ks,
    "== 1": lambda k, ks: k == 1,
    "sin": lambda k, ks: cnp.sin(k),
    "sum": lambda k, ks: cnp.sum(ks),
    "sort": lambda k, ks: cnp.sort(ks),
    "max": lambda k, ks: cnp.max(ks),
    "lax.add": lambda k, ks: lax.add(k, k),
    "astype": lambda k, ks: ks.astype("uint32"),
    "item": lambda k, ks: k.item(),
    "tolist": lambda k, ks: ks.tolist(),
    "bool": lambda k, ks: bool(k),
    "int": lambda k, ks: int(k),
    "asarray": lambda k, ks: np.asarray(ks),
    "hash": lambda k, ks: hash(k),
}


@pytest.mark.parametrize("reduction", [cnp.sum, cnp.prod, cnp.cumsum, cnp.cumulative_sum])
def test_sums_name_the_operation(reduction: Any) -> None:
    words = f"{reduction.__name__}: random keys are not numbers; got an array of dtype key<fry>"
    with pytest.raises(TypeError, match=words):
        reduction(samples(random)[1])


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_no_numbers(name: str) -> None:
    key, keys, _ = samples(random)
    with pytest.raises(TypeError):
        NO_NUMBERS[name](key, keys)


def test_control_flow() -> None:
    """A key is carried by loops."""
    found, wanted = (
        loops.fori_loop(0, 3, lambda i, k, r=r: r.fold_in(k, i), r.key(0))
        for r, loops in ((random, lax), (theirs, jax.lax))
    )
    assert_equal(found, wanted)


def test_not_differentiated() -> None:
    key = random.key(0)
    assert float(cv.grad(lambda x, k: x * random.uniform(k))(2.0, key)) == float(
        random.uniform(key)
    )
    tangent = np.zeros((), cv.dtypes.float0)
    assert float(cv.jvp(random.uniform, (key,), (tangent,))[1]) == 0.0
    with pytest.raises(TypeError):
        cv.grad(random.uniform)(key)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: random.key(1.5), TypeError, "key: PRNG key seed must be an integer"),
        (lambda: random.key("a"), TypeError, "valid array type"),
        (lambda: random.key(np.arange(2)), TypeError, "key accepts a scalar seed; got one of sh"),
        (lambda: random.key(random.key(0)), TypeError, "was given a PRNG key"),
        (lambda: random.key(2**63), OverflowError, "9223372036854775808 does not fit"),
        (lambda: random.key(0, impl="x"), ValueError, "unrecognized PRNG implementation 'x'"),
        (lambda: random.key(0, impl=3), TypeError, "given by its name or key dtype; got 3"),
        (lambda: random.key(0, impl="rbg"), NotImplementedError, "'rbg' is not there"),
        (lambda: random.key(0, impl="threefry2x32", dtype=random.key_dtype()), ValueError, "both"),
        (lambda: random.PRNGKey(1.5), TypeError, "PRNGKey: PRNG key seed must be"),
        (lambda: random.split(random.split(random.key(0))), ValueError, r"split .* shape \(2,\)"),
        (lambda: random.split(random.split(random.PRNGKey(0))), ValueError, "use vmap"),
        (lambda: random.split(3), TypeError, "split: unexpected PRNG key 3"),
        (lambda: random.split(np.zeros(2, np.int32)), TypeError, r"unexpected PRNG key int32\[2\]"),
        (lambda: random.split(random.key(0), -1), ValueError, "negative"),
        (lambda: random.split(random.key(0), 2.5), TypeError, "integer"),
        (lambda: random.fold_in(random.key(0), -1), OverflowError, "fold_in: data must lie"),
        (lambda: random.fold_in(random.key(0), np.arange(2)), TypeError, "accepts a scalar"),
        (lambda: random.wrap_key_data(np.zeros(3, np.uint32)), TypeError, "last axis of size 2"),
        (lambda: random.wrap_key_data(np.zeros(2, np.int32)), TypeError, "must be uint32"),
        (lambda: random.key_impl(1), TypeError, "key_impl: unexpected PRNG key 1"),
        (lambda: random.uniform(None), TypeError, "uniform: unexpected PRNG key None"),
        (lambda: random.normal([0, 1]), TypeError, "normal: unexpected PRNG key"),
    ],
)
def test_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_options() -> None:
    legacy = random.PRNGKey(0)
    with cv.legacy_prng_key("error"), pytest.raises(ValueError, match="uniform: got a legacy key"):
        random.uniform(legacy)
    with cv.legacy_prng_key("warn"), pytest.warns(UserWarning, match="split: got a legacy key"):
        random.split(legacy)
    with cv.enable_custom_prng(True):
        assert random.PRNGKey(0).dtype == random.key_dtype()
    with cv.default_prng_impl("rbg"), pytest.raises(NotImplementedError, match="rbg"):
        random.key(0)
    cv.config.update("random_seed_offset", 5)
    try:
        for seed in (3, -1, np.int32(7)):
            assert random.key_data(random.key(seed)).tolist() == [0, int(seed) + 5]
    finally:
        cv.config.update("random_seed_offset", 0)
