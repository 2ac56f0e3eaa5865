"""The door of `covector.numpy`: its names and signatures, ufunc objects, scalar types, brackets."""

import inspect
import pickle

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp

#: Names of the oracle that are not there yet.
ABSENT = {
    "jax.numpy": {"fft", "polyfit", "roots"},
    "jax.numpy.linalg": set(),
    "jax.nn": set(),
    "jax.nn.initializers": {"delta_orthogonal", "orthogonal"},
}  # fmt: skip
#: Parameters of the same place with another name.
RENAMED = {"real", "imag", "set_printoptions"}


def pairs(jax):
    yield "jax.numpy", jax.numpy, cnp
    yield "jax.numpy.linalg", jax.numpy.linalg, cnp.linalg
    yield "jax.nn", jax.nn, cv.nn
    yield "jax.nn.initializers", jax.nn.initializers, cv.nn.initializers


def public(module):
    return {n for n in dir(module) if not n.startswith("_")}


def test_names(jax):
    for name, oracle, ours in pairs(jax):
        missing = {n for n in public(oracle) if getattr(oracle, n, None) is not None}
        missing -= public(ours) | {"newaxis"}
        assert missing <= ABSENT[name], name


def test_all_is_what_there_is():
    for module in (cnp, cnp.linalg, cv.nn):
        assert sorted(set(module.__all__)) == sorted(module.__all__)
        assert all(hasattr(module, n) for n in module.__all__)


def parameters(function):
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind) for p in found]


def test_signatures(jax):
    wrong = []
    for name, oracle, ours in pairs(jax):
        for n in sorted(public(oracle) & public(ours) - RENAMED):
            theirs = getattr(oracle, n)
            if (
                inspect.isfunction(inspect.unwrap(theirs))
                or type(theirs).__name__ == "PjitFunction"
            ):
                wanted, given = parameters(theirs), parameters(getattr(ours, n))
                if wanted is not None and wanted != given:
                    wrong.append(f"{name}.{n}: {given} instead of {wanted}")
    assert not wrong, "\n".join(wrong)


def test_every_public_function_has_an_example():
    bare = [
        n
        for n in cnp.__all__
        if inspect.isfunction(f := getattr(cnp, n))
        and (f.__module__ or "").startswith("covector")
        and ">>>" not in (f.__doc__ or "")
        and n not in ("fromfile", "fromiter")  # they only refuse
    ]
    assert bare == []


# Refusals


LISTS = """
abs add sum mean max argmax cumsum reshape transpose squeeze expand_dims broadcast_to tile flip roll
sort argsort dot matmul inner outer tensordot where clip round isnan diag tril take trace vdot pad
nonzero median quantile unique isin interp searchsorted bincount histogram diff polyval vander
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_refused_by_name_and_position(name):
    function = getattr(cnp, name)
    count = sum(
        p.default is p.empty and p.kind is not p.VAR_POSITIONAL
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    )
    count = {"add": 2, "where": 3}.get(name, max(count, 1))
    with pytest.raises(TypeError, match=r"requires ndarray or scalar arguments.*position 0"):
        function(*([1, 2],) * count)


def test_messages_say_what_is_wrong():
    x = cnp.ones((2, 3))
    for call, error, words in (
        (lambda: x + cnp.ones(4), ValueError, "(2, 3), (4,)"),
        (lambda: cnp.sum(x, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda: cnp.reshape(x, (4, -1)), TypeError, "size 6"),
        (lambda: cnp.concatenate([x, x.T]), TypeError, "concatenate"),
        (lambda: x[0, 0, 0], IndexError, "2-dimensional, but 3"),
        (lambda: x.at[0].set(cnp.ones(4)), ValueError, "(4,)"),
        (lambda: x["a"], TypeError, "string"),
        (lambda: x.__setitem__(0, 1), TypeError, "x.at["),
        (lambda: cnp.max(cnp.zeros(0)), ValueError, "no identity"),
        (lambda: cnp.einsum("ij,jk", x, x), ValueError, "label 'j'"),
        (lambda: cnp.sum(x, out=x), NotImplementedError, "out"),
    ):
        with pytest.raises(error) as caught:
            call()
        assert words in str(caught.value)


def test_values_needed_while_tracing():
    x = cnp.arange(4.0)
    concretization = cv.errors.ConcretizationTypeError
    for function, error in (
        (cnp.nonzero, concretization),
        (cnp.unique, concretization),
        (lambda a: cnp.arange(a[0]), concretization),
        (lambda a: cnp.reshape(a, a[0].astype(int)), TypeError),
        (lambda a: a[a > 1], cv.errors.NonConcreteBooleanIndexError),
        (lambda a: a[a[0].astype(int) :], IndexError),
        (lambda a: cnp.zeros(a[0].astype(int)), TypeError),
        (lambda a: cnp.bincount(a.astype(int)), concretization),
    ):
        with pytest.raises(error):
            cv.jit(function)(x)


def test_numpy_rank_promotion():
    x, y = cnp.ones((2, 3)), cnp.ones(3)
    with cv.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank promotion"):
        x + y
    with cv.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion"):
        x + y


def test_unsafe_update_warns():
    with pytest.warns(FutureWarning, match="float32"):
        out = cnp.arange(3).at[0].set(1.5)
    assert out.tolist() == [1, 1, 2]


# Objects


def test_ufunc_objects():
    assert (cnp.add.nin, cnp.add.nout, cnp.add.nargs, cnp.add.identity) == (2, 1, 2, 0)
    assert repr(cnp.add) == "<covector.numpy.ufunc 'add'>"
    assert cnp.add.__name__ == "add"
    with pytest.raises(TypeError, match="2 positional arguments but 3"):
        cnp.add(1, 2, 3)
    with pytest.raises(NotImplementedError, match="out"):
        cnp.add(1, 2, out=3)
    with pytest.raises(ValueError, match="binary"):
        cnp.negative.reduce(cnp.ones(2))


def test_generic_ufunc_goes_from_first_to_last():
    power = cnp.frompyfunc(lambda x, y: x - 2 * y, 2, 1)
    x = np.float32([5, 1, 2, 3])
    assert float(power.reduce(x)) == 5 - 2 - 4 - 6
    assert power.accumulate(x).tolist() == [5, 3, -1, -7]
    assert power.at(cnp.asarray(x), cnp.array([0, 0]), 1.0, inplace=False).tolist() == [1, 1, 2, 3]
    assert power.reduceat(x, cnp.array([0, 2])).tolist() == [3, -4]
    assert power.outer(x[:2], x[:2]).tolist() == [[-5, 3], [-9, -1]]


def test_at_apply_counts_repetitions():
    x = cnp.array([1.0, 2.0, 3.0])
    index = cnp.array([0, 0, 2])
    assert x.at[index].apply(lambda v: 2 * v).tolist() == [4.0, 2.0, 6.0]
    assert x.at[index].apply(lambda v: 2 * v, unique_indices=True).tolist() == [2.0, 2.0, 6.0]


def test_scalar_types():
    assert np.dtype(cnp.bfloat16).name == "bfloat16"
    assert cnp.float32 == np.float32
    assert cnp.float32 != cnp.float16
    assert {cnp.float32: 1}[np.float32] == 1
    assert cnp.float32(3).dtype == np.float32
    assert repr(cnp.float32) == "<class 'covector.numpy.float32'>"
    assert cnp.issubdtype(cnp.float8_e4m3fn, cnp.floating)
    assert not isinstance(cnp.float32(1), cnp.float32)
    assert pickle.loads(pickle.dumps(cnp.float32)) is cnp.float32


def test_x64():
    with cv.enable_x64(True):
        assert cnp.arange(3).dtype == np.int64
        assert cnp.zeros(2).dtype == np.float64
        assert cnp.sum(cnp.ones(3, cnp.int8)).dtype == np.int64
        assert cnp.sin(1).dtype == np.float64
        assert cnp.argmax(cnp.ones(3)).dtype == np.int64
    with pytest.warns(UserWarning, match="float64"):
        assert cnp.zeros(2, "float64").dtype == np.float32


def test_files(tmp_path):
    x = cnp.arange(6.0).reshape(2, 3)
    cnp.save(tmp_path / "x.npy", x)
    loaded = cnp.load(tmp_path / "x.npy")
    assert isinstance(loaded, cv.Array)
    assert loaded.tolist() == x.tolist()
    cnp.savez(tmp_path / "both.npz", a=x, b=x)
    with cnp.load(tmp_path / "both.npz") as archive:
        assert sorted(archive) == ["a", "b"]


def test_foreign_operands_are_asked_first():
    class Strange:
        def __radd__(self, other):
            return "mine"

    assert cnp.ones(2) + Strange() == "mine"

    class Wrapped:
        def __jax_array__(self):
            return cnp.array([1.0, 2.0])

    assert (cnp.ones(2) + Wrapped()).tolist() == [2.0, 3.0]
    assert cnp.sum(Wrapped()).tolist() == 3.0
