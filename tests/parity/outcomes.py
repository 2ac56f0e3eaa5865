"""Expressions evaluated in two libraries, and whether the outcomes are the same.

An outcome is what an expression gives (structure, dtypes, shapes, weak types, values) or the type
of the exception it raises.  Expressions are written once, over the names in `world`: `m` is the
array module, `lib` the library, `nn` its neural network functions, `np` NumPy.
"""

import warnings

import ml_dtypes
import numpy as np

from tests import oracle

TOLERANCES = {2: 2e-2, 4: 5e-6, 8: 5e-6, 16: 1e-12}


def world(lib, **arrays):
    """The names for expressions in `lib`; arrays are those of the library."""
    own = {name: lib.numpy.asarray(x) for name, x in arrays.items()}
    return {"m": lib.numpy, "lib": lib, "nn": lib.nn, "np": np, "bf16": ml_dtypes.bfloat16, **own}


def outcome(expression, names):
    """The value described, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if names["lib"].__name__ != "jax":
                return describe(eval(expression, dict(names)))
            return describe(oracle.given("parity", lambda: eval(expression, dict(names))))
        except Exception as error:
            return Raised(error)


def describe(value):
    """Nested tuples of (dtype, shape, weak type, elements) and of plain values."""
    if isinstance(value, (tuple, list)):
        return tuple(describe(v) for v in value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        dtype = str(value.dtype)
        weak = bool(getattr(value, "weak_type", False)) and dtype != "bool"
        return Found(dtype, tuple(value.shape), weak, np.asarray(value))
    return value


class Raised:
    """An exception: ours must be of the class that the oracle raises, by name."""

    def __init__(self, error):
        self.message = str(error)
        self.names = [kind.__name__ for kind in type(error).__mro__]

    def __repr__(self):
        return f"{self.names[0]}: {self.message[:160]}"

    def __eq__(self, oracle):
        return isinstance(oracle, Raised) and oracle.names[0] in self.names

    __hash__ = None


class Found:
    """An array as it was found."""

    def __init__(self, dtype, shape, weak, elements):
        self.type = (dtype, shape, weak)
        self.elements = elements

    def __repr__(self):
        dtype, shape, weak = self.type
        values = ", ".join(map(str, self.elements.reshape(-1)[:8].tolist()))
        return f"{dtype}{list(shape)}{'*' if weak else ''}({values})"

    def __eq__(self, other):
        if not isinstance(other, Found) or self.type != other.type:
            return False
        x, y = self.elements, other.elements
        if x.dtype.kind in "biu":
            return bool(np.array_equal(x, y))
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        tolerance = TOLERANCES.get(x.dtype.itemsize, 0.2)
        return np.allclose(
            x.astype(wide), y.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True
        )

    __hash__ = None


def differences(expressions, ours, theirs):
    """Readable lines for the expressions whose outcomes differ."""
    out = []
    for expression in expressions:
        mine, oracle = outcome(expression, ours), outcome(expression, theirs)
        same = mine == oracle or (mine != mine and oracle != oracle)
        if not same:
            out.append(f"{expression}\n    ours: {mine!r}\n    jax:  {oracle!r}")
    return out


def lines(text):
    """The expressions in a block of text, one a line."""
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


def words(text):
    """The names in a block of text."""
    return text.split()
