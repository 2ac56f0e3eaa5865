"""Probability distributions, each a module of functions of arrays."""

from covector.scipy.stats import norm

__all__ = ["norm"]
