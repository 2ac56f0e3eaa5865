"""What functions remember of types holds for the options under which it was found."""

from __future__ import annotations

import itertools

import numpy as np
import opt_einsum
import pytest

import covector as cv
import covector.numpy as cnp
from covector._base.config import config
from covector.numpy._einsum import _of_three

X = np.arange(3, dtype=np.float32)


def test_types_of_results_follow_the_options() -> None:
    for wide in (False, True, False, True):
        with config.scoped(enable_x64=wide):
            large = np.float64 if wide else np.float32
            assert cnp.add(np.float64(1), 1).dtype == large
            assert cnp.sin(1).dtype == cnp.asarray(2.0).dtype == large
            assert (cnp.asarray(X) * 2.5).dtype == np.float32
            assert cv.jit(lambda x: x + 1.5)(1.0).dtype == large
            assert cv.grad(lambda x: x * cnp.sin(x))(2.0).dtype == large


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-40, 1e300, 3.4e38, 7, -(1 << 24), (1 << 24) + 1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.complex64])
def test_numbers_are_rounded_as_numpy_does(value: float, dtype: type) -> None:
    if isinstance(value, float) and dtype is np.int8:
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(value).astype(dtype)
    found = cv.make_jaxpr(lambda x: x * value)(np.ones(2, dtype)).jaxpr.eqns[-1].invars[1]
    np.testing.assert_array_equal(getattr(found, "val", expected), expected, strict=True)


def test_three_operands_are_contracted_in_the_best_order() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        sizes = {c: int(n) for c, n in zip("abcde", rng.integers(2, 20, 5), strict=True)}
        terms = ["".join(rng.permutation(list("abcde"))[: rng.integers(1, 4)]) for _ in range(3)]
        used = sorted(set("".join(terms)))
        output = "".join(used[: rng.integers(len(used))])
        path = _of_three(terms, output, sizes)
        costs = {}
        for pair in itertools.combinations(range(3), 2):
            _, info = opt_einsum.contract_path(
                f"{','.join(terms)}->{output}",
                *(tuple(sizes[c] for c in t) for t in terms),
                optimize=[pair, (0, 1)],
                shapes=True,
            )
            costs[pair] = info.opt_cost
        assert costs[tuple(path[0])] == min(costs.values()), (terms, output, sizes)
