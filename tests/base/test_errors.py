"""Exceptions: bases, messages, pickling; names and bases are those of JAX."""

import inspect
import pickle

import pytest

from covector._base import errors


class Tracer:
    aval = "f32[3]"

    def origin_message(self):
        return "It comes from the argument x of f at file.py:3."


OF_TRACERS = [
    errors.ConcretizationTypeError,
    errors.TracerBoolConversionError,
    errors.TracerArrayConversionError,
    errors.TracerIntegerConversionError,
    errors.NonConcreteBooleanIndexError,
]


@pytest.mark.parametrize("error", OF_TRACERS)
def test_messages_name_type_origin_and_help(error):
    text = str(error(Tracer()))
    assert "traced array of type f32[3]" in text
    assert "It comes from the argument x of f at file.py:3." in text
    assert f"help(covector.errors.{error.__name__})" in text
    assert "'thing'" in str(error("thing"))


@pytest.mark.parametrize("error", OF_TRACERS)
def test_errors_pickle_by_their_message(error):
    made = error(Tracer())
    made.add_note("seen in a worker")
    restored = pickle.loads(pickle.dumps(made))
    assert type(restored) is error
    assert str(restored) == str(made)
    assert restored.__notes__ == ["seen in a worker"]


def test_context_of_concretization():
    text = str(errors.ConcretizationTypeError(Tracer(), "It is the argument 'stop' of arange."))
    assert "It is the argument 'stop' of arange." in text


def test_every_public_error_explains_itself():
    for error in errors.PUBLIC_ERRORS:
        assert error.__doc__
        assert inspect.getdoc(error) != inspect.getdoc(error.__mro__[1])


def test_names_and_bases_are_those_of_jax():
    theirs = pytest.importorskip("jax").errors
    names = {name for name in dir(theirs) if isinstance(getattr(theirs, name), type)}
    assert names == {error.__name__ for error in errors.PUBLIC_ERRORS}
    for error in errors.PUBLIC_ERRORS:

        def lineage(cls):
            return [base.__name__ for base in cls.__mro__ if not base.__name__.startswith("_")]

        assert lineage(error) == lineage(getattr(theirs, error.__name__))
