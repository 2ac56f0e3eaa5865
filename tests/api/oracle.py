"""A function of the library's modules, run with Covector's and with the oracle's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.oracle import answer


class Modules(NamedTuple):
    """One library: `m` has grad and its kin."""

    m: Any
    np: Any
    lax: Any
    rules: Any
    ad: Any


def library(name: str) -> Modules:
    """The modules of 'covector' or 'jax'."""
    parts = ("numpy", "lax", "custom_derivatives", "ad_checkpoint")
    return Modules(
        importlib.import_module(name), *(importlib.import_module(f"{name}.{p}") for p in parts)
    )


def outcome(case: Callable[[Modules], Any], name: str) -> Any:
    """The result, with leaves as (shape, dtype, weak type, NumPy array)."""
    made = library(name)

    def plain(x: Any) -> Leaf:
        value = np.asarray(made.np.asarray(x) if isinstance(x, (bool, int, float, complex)) else x)
        return Leaf(value.shape, str(value.dtype), value)

    # One program of the oracle, where that can be: it compiles single operations long.
    found = answer("api", lambda: case(made)) if name == "jax" else case(made)
    return made.m.tree.map(plain, found)


class Leaf(NamedTuple):
    """An array of a result.  To pytrees of either library this is a tuple."""

    shape: tuple[int, ...]
    dtype: str
    value: Any


def agree(case: Callable[[Modules], Any], tol: float = 2e-6) -> Any:
    """Assert that both give the same structure, shapes, dtypes and values; give Covector's."""
    pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
    ours, theirs = outcome(case, "covector"), outcome(case, "jax")
    _compare(ours, theirs, "result", tol)
    return ours


def _compare(a: Any, b: Any, path: str, tol: float) -> None:
    assert type(a) is type(b), f"{path}: {type(a)}, the oracle has {type(b)}"
    if isinstance(a, Leaf):
        assert a[:2] == b[:2], f"{path}: {a[:2]}, the oracle has {b[:2]}"
        if "float0" in a.dtype:
            return
        np.testing.assert_allclose(a.value, b.value, rtol=tol, atol=tol, err_msg=path)
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            _compare(a[key], b[key], f"{path}[{key!r}]", tol)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b), path
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            _compare(x, y, f"{path}[{k}]", tol)
    else:
        assert a is b is None, path


def same_error(case: Callable[[Modules], Any]) -> str:
    """Assert that both raise, of one builtin class; give Covector's message."""
    pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
    found = {}
    for name in ("covector", "jax"):
        with pytest.raises(Exception) as info:  # noqa: PT011
            case(library(name))
        found[name] = info.value
    kinds = [_builtin(e) for e in found.values()]
    assert kinds[0] is kinds[1], found
    return str(found["covector"])


def _builtin(error: Exception) -> type:
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")
