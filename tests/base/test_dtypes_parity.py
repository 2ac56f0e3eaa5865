"""The promotion lattice against JAX: all pairs, weak or not, in both precision modes."""

import itertools
import warnings

import numpy as np
import pytest

import covector.dtypes as cd
from covector._base.config import config
from covector.dtypes._types import ENTRIES

jax = pytest.importorskip("jax")

DTYPES = list(ENTRIES)
PYTHON = [int, float, complex]
MODES = [(x64, strict) for x64 in (False, True) for strict in ("standard", "strict")]
REFUSED = "refused"


def outcome(function, *args, **kwargs):
    """The result, or a word for a refusal: both libraries must refuse the same things."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except (ValueError, TypeError) as error:
            return (REFUSED, type(error).__name__)


@pytest.fixture(params=MODES, ids=lambda mode: f"x64={mode[0]}-{mode[1]}")
def mode(request):
    x64, strict = request.param
    with (
        jax.enable_x64(x64),
        jax.numpy_dtype_promotion(strict),
        config.scoped(enable_x64=x64, numpy_dtype_promotion=strict),
    ):
        yield request.param


def disagreements(function, oracle, operands, repeat=2, **kwargs):
    return [
        (args, ours, theirs)
        for args in itertools.product(operands, repeat=repeat)
        if (ours := outcome(function, *args, **kwargs))
        != (theirs := outcome(oracle, *args, **kwargs))
    ]


def test_promote_types_of_all_pairs(mode):
    operands = DTYPES + PYTHON
    assert disagreements(cd.promote_types, jax.numpy.promote_types, operands) == []


def test_result_type_of_all_pairs_of_types(mode):
    operands = DTYPES + PYTHON
    wrong = disagreements(
        cd.result_type, jax.dtypes.result_type, operands, return_weak_type_flag=True
    )
    assert wrong == []


def test_result_type_of_all_pairs_of_values(mode):
    operands = [np.zeros(2, d) for d in DTYPES] + [True, 1, 1.0, 1j, np.float64(2), np.int8(1)]
    wrong = disagreements(
        cd.result_type, jax.dtypes.result_type, operands, return_weak_type_flag=True
    )
    assert wrong == []


def test_result_type_of_triples():
    names = ["bool", "int8", "uint8", "uint64", "float16", "bfloat16", "float8_e5m2", "complex64"]
    operands = [cd.as_dtype(name) for name in names] + PYTHON
    for x64 in (False, True):
        with jax.enable_x64(x64), config.scoped(enable_x64=x64):
            wrong = disagreements(
                cd.result_type, jax.dtypes.result_type, operands, 3, return_weak_type_flag=True
            )
            assert wrong == []


def test_join_of_weak_and_strong_arrays(mode):
    # Weak arrays of any dtype come from promotion under another setting, or from a traced type.
    typed = [(d, w) for d, e in ENTRIES.items() if e.bits >= 8 for w in (False, True)]

    mine = [outcome(cd.join, operands) for operands in itertools.product(typed, repeat=2)]
    mine += [outcome(cd.join, (operand,)) for operand in typed]
    found = []

    def probe(*arrays):
        for operands in [*itertools.product(arrays, repeat=2), *((array,) for array in arrays)]:
            found.append(outcome(jax.dtypes.result_type, *operands, return_weak_type_flag=True))
        return 0

    jax.eval_shape(probe, *[jax.ShapeDtypeStruct((), d, weak_type=w) for d, w in typed])
    assert mine == found


@pytest.mark.parametrize("handling", ["allow", "error"])
def test_explicit_64_bit_dtypes(handling):
    names = ["float64", "int64", "uint64", "complex128", "float32", "int8", "bool", "bfloat16"]
    operands = [np.dtype(cd.as_dtype(name)) for name in names] + [1.0, 1, 1j, np.float64(1), None]
    jax.config.update("jax_explicit_x64_dtypes", handling)
    try:
        with config.scoped(explicit_x64_dtypes=handling):
            for n in (1, 2):
                wrong = disagreements(
                    cd.result_type, jax.dtypes.result_type, operands, n, return_weak_type_flag=True
                )
                assert wrong == []
    finally:
        jax.config.update("jax_explicit_x64_dtypes", "warn")


def test_issubdtype():
    categories = [
        np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact,
        np.floating, np.complexfloating, np.bool_, np.float32, np.int8, float, int, bool, None,
    ]  # fmt: skip
    below = [*DTYPES, float, int, complex, bool, None, "float32", *categories]
    mine = [*categories, cd.extended, cd.prng_key]
    theirs = [*categories, jax.dtypes.extended, jax.dtypes.prng_key]
    for a in below:
        for b, their_b in zip(mine, theirs, strict=True):
            assert cd.issubdtype(a, b) == jax.dtypes.issubdtype(a, their_b), (a, b)
    for tag, impl in (("fry", "threefry2x32"), ("rbg", "rbg"), ("urbg", "unsafe_rbg")):
        key = cd.key_type(impl)
        their_key = jax.random.key(0, impl=impl).dtype
        assert repr(key) == repr(their_key) == f"key<{tag}>"
        assert key.itemsize == their_key.itemsize
        for b, their_b in zip(mine, theirs, strict=True):
            assert cd.issubdtype(key, b) == jax.dtypes.issubdtype(their_key, their_b), b


@pytest.mark.parametrize("x64", [False, True])
def test_canonicalize_and_scalar_types(x64):
    with jax.enable_x64(x64), config.scoped(enable_x64=x64), warnings.catch_warnings():
        for spec in [*DTYPES, *PYTHON, bool, None, "float64", "S3", cd.float0]:
            assert cd.canonicalize_dtype(spec) == jax.dtypes.canonicalize_dtype(spec)
        warnings.simplefilter("ignore")  # both say that 64-bit types are not available
        for spec in [*DTYPES, *PYTHON, bool, True, 1, 1.0, 1j, np.ones(2, np.int8), np.float64(1)]:
            assert cd.scalar_type_of(spec) is jax.dtypes.scalar_type_of(spec)
        for d in DTYPES:
            assert cd.itemsize_bits(d) == jax.dtypes.itemsize_bits(d)


@pytest.mark.parametrize("x64", [False, True])
def test_inexact_dtype_is_what_sin_gives(x64):
    with jax.enable_x64(x64), config.scoped(enable_x64=x64), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for d, entry in ENTRIES.items():
            if entry.kind in "iu" and entry.bits < 8 and d.name != "int4":
                continue  # JAX refuses them
            expected = jax.eval_shape(jax.numpy.sin, jax.ShapeDtypeStruct((), d)).dtype
            assert cd.to_inexact_dtype(cd.canonical(d)) == expected, d


def test_short_names_are_those_of_printed_programs():
    with jax.enable_x64(True):
        for d in [*DTYPES, cd.float0]:
            text = str(jax.make_jaxpr(lambda x: x)(jax.ShapeDtypeStruct((), d)))
            assert f"a:{cd.short_name(d)}[]" in text
