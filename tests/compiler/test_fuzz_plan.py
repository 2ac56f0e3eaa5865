"""Random programs: planned, verified, interpreted, and equal to NumPy."""

import pytest
from fuzzing import check


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block):
    """Vector loops run as whole NumPy vectors: their iterations are independent."""
    for seed in range(block * 25, block * 25 + 25):
        check(seed)


def test_random_programs_element_by_element():
    for seed in range(1000, 1025):
        check(seed, lanes=False)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_programs(block):
    for seed in range(2000 + block * 150, 2150 + block * 150):
        check(seed)
