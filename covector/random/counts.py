"""Counts at random: Poisson, binomial, multinomial numbers, by rejection in lock step."""

from __future__ import annotations

from typing import Any

import numpy as np

from covector import dtypes, lax
from covector import numpy as cnp
from covector.api.jit import jit
from covector.ir.values import typeof
from covector.numpy import convert
from covector.ops.random_floats import unit_interval
from covector.random.arguments import (
    float_dtype,
    int_dtype,
    joint_shape,
    parameters,
    placed,
    scalar,
    shape_of,
)
from covector.random.keys import as_key, clone, split


def _where_all(carry: Any) -> Any:
    """Whether somebody still waits: the last of the carry."""
    return cnp.any(carry[-1])


# Poisson


def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Poisson numbers of mean `lam`, in an integer `dtype`; -1 where `lam` is negative or NaN.

    For a mean below 10 by products of uniform numbers (D. Knuth, TAOCP volume 2, 3.4.1 F); else by
    transformed rejection (W. Hörmann, "The transformed rejection method for generating Poisson
    random variables", Insurance: Mathematics and Economics 12, 1993).

    >>> from covector import random
    >>> bool((random.poisson(random.key(0), 3.0, (10,)) >= 0).all())
    True
    """
    keys, _ = as_key(key, "poisson")
    wanted = int_dtype(dtype, "poisson")
    (lam,) = parameters("poisson", np.dtype(np.float32), lam)
    shape = joint_shape("poisson", shape, lam)
    return placed(cnp.asarray(_poisson(keys, cnp.broadcast_to(lam, shape)), wanted), out_sharding)


@jit
def _poisson(keys: Any, lam: Any) -> Any:
    few = ~(lam >= 10)
    by_products = _poisson_by_products(keys, cnp.where(few, lam, cnp.zeros_like(lam)))
    large = cnp.where(few, cnp.full_like(lam, 1e5), lam)
    # of the two only one counts, so that both may draw from the same key
    found = cnp.where(few, by_products, _poisson_by_rejection(clone(keys), large))
    return cnp.where(lam == 0, cnp.zeros_like(lam), found)


def _poisson_by_products(keys: Any, lam: Any) -> Any:
    """How many uniform numbers have a product above exp(-lam)."""

    def step(carry: Any) -> Any:
        keys, count, log_product, waits = carry
        keys, subkey = split(keys)
        count = cnp.where(waits, count + 1, count)
        u = unit_interval(subkey, lam.shape, lam.dtype)
        log_product = cnp.where(waits, log_product + cnp.log(u), log_product)
        return keys, count, log_product, log_product > -lam

    none = cnp.zeros_like(lam)
    out = lax.while_loop(_where_all, step, (keys, none, none, none > -lam))
    return out[1] - 1


def _poisson_by_rejection(keys: Any, lam: Any) -> Any:
    """As long as somebody waits, all are drawn again; the last one accepted counts."""
    b = 0.931 + 2.53 * cnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    limit = 0.9277 - 3.6224 / (b - 2)
    log_lam = cnp.log(lam)

    def step(carry: Any) -> Any:
        keys, found, waits = carry
        keys, for_u, for_v = split(keys, 3)
        u = unit_interval(for_u, lam.shape, lam.dtype) - 0.5
        v = unit_interval(for_v, lam.shape, lam.dtype)
        us = 0.5 - cnp.abs(u)
        k = cnp.floor((2 * a / us + b) * u + lam + 0.43)
        s = cnp.log(v * inverse_alpha / (a / (us * us) + b))
        fits = s <= k * log_lam - lam - lax.lgamma(k + 1)
        refused = (k < 0) | ((us < 0.013) & (v > us))
        accepted = ((us >= 0.07) & (v <= limit)) | (~refused & fits)
        return keys, cnp.where(accepted, k, found), waits & ~accepted

    none = cnp.zeros_like(lam)
    return lax.while_loop(_where_all, step, (keys, none - 1, none == none))[1]


# Binomial


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many of `n` trials succeed that each do with probability `p`, in a float `dtype`.

    Of an `n` that is not whole its whole part counts.  NaN where n < 0, or p is not in [0, 1];
    infinite where n is and p > 0.  For n min(p, 1 - p) <= 10 by the waiting times between
    successes (L. Devroye, "Non-uniform random variate generation", 1986, X.4.3); else by
    transformed rejection (W. Hörmann, "The generation of binomial random variates", Journal of
    Statistical Computation and Simulation 46, 1993).

    >>> from covector import random
    >>> float(random.binomial(random.key(0), 10, 1.0))
    10.0
    """
    keys, _ = as_key(key, "binomial")
    wanted = float_dtype(dtype, "binomial")
    n, p = _in_common("binomial", n, p)
    shape = joint_shape("binomial", shape, n, p)
    found = _binomial(keys, cnp.broadcast_to(n, shape), cnp.broadcast_to(p, shape))
    return cnp.asarray(found, wanted)


def _in_common(who: str, n: Any, p: Any) -> list[Any]:
    """Both in the float dtype that theirs have in common, in which the numbers are drawn."""
    given = [typeof(x).dtype for x in convert.operands(who, n, p)]
    return parameters(who, dtypes.to_inexact_dtype(dtypes.promote_types(*given)), n, p)


@jit
def _binomial(keys: Any, n: Any, p: Any) -> Any:
    flipped = p >= 0.5
    rare = cnp.where(flipped, 1 - p, p)
    usual = (n >= 0) & (p >= 0) & (p <= 1)
    few = n * rare <= 10
    n = cnp.floor(n)
    nothing = ~usual | (n == 0) | (rare == 0)
    zero, one = cnp.zeros_like(n), cnp.ones_like(n)
    by_waits = _binomial_by_waits(
        keys,
        cnp.where(few & ~nothing, n, zero),
        cnp.where(few & ~nothing, rare, one / 2),
    )
    # of the two only one counts, so that both may draw from the same key
    by_rejection = _binomial_by_rejection(
        clone(keys),
        cnp.where(few | nothing, cnp.full_like(n, 1e4), n),
        cnp.where(few | nothing, one / 2, rare),
    )
    found = cnp.where(few, by_waits, by_rejection)
    found = cnp.where(nothing, zero, found)
    found = cnp.where(flipped, n - found, found)
    found = cnp.where((n == cnp.inf) & (p > 0), n, found)
    return cnp.where(usual, found, cnp.nan)


def _binomial_by_waits(keys: Any, n: Any, p: Any) -> Any:
    """How many geometric waiting times fit into n."""
    log_rest = cnp.log1p(-p)

    def step(carry: Any) -> Any:
        keys, count, total, waits = carry
        subkey, keys = split(keys)
        u = unit_interval(subkey, n.shape, n.dtype)
        total = cnp.where(waits, total + cnp.ceil(cnp.log(u) / log_rest), total)
        return keys, cnp.where(waits, count + 1, count), total, total <= n

    none = cnp.zeros_like(n)
    return lax.while_loop(_where_all, step, (keys, none, none, none <= n))[1] - 1


#: log(k!) less the main part of Stirling's formula for log((k + 1)!) / (k + 1), for k = 0 … 9.
_STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.0092554621827127, 0.0083305634333628,
)  # fmt: skip


def _stirling_tail(k: Any) -> Any:
    """log k! less (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2."""
    m = k + 1
    far = (1 / 12 - (1 / 360 - 1 / 1260 / (m * m)) / (m * m)) / m
    for j, value in enumerate(_STIRLING):
        far = cnp.where(k == j, scalar(value, k.dtype), far)
    return far


def _binomial_by_rejection(keys: Any, n: Any, p: Any) -> Any:
    """As `_poisson_by_rejection`: the last one accepted counts."""
    spread = cnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre, limit = n * p + 0.5, 0.92 - 4.2 / b
    odds, alpha = p / (1 - p), (2.83 + 5.1 / b) * spread
    m = cnp.floor((n + 1) * p)

    def step(carry: Any) -> Any:
        keys, found, waits = carry
        keys, for_u, for_v = split(keys, 3)
        u = unit_interval(for_u, n.shape, n.dtype) - 0.5
        v = unit_interval(for_v, n.shape, n.dtype)
        us = 0.5 - cnp.abs(u)
        k = cnp.floor((2 * a / us + b) * u + centre)
        refused = (k < 0) | (k > n)
        v_bound = (
            (m + 0.5) * cnp.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * cnp.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * cnp.log(odds * (n - k + 1) / (k + 1))
            + (_stirling_tail(m) + _stirling_tail(n - m))
            - (_stirling_tail(k) + _stirling_tail(n - k))
        )
        fits = cnp.log(v * alpha / (a / (us * us) + b)) <= v_bound
        accepted = ((us >= 0.07) & (v <= limit)) | (~refused & fits)
        return keys, cnp.where(accepted, k, found), waits & ~accepted

    none = cnp.zeros_like(n)
    return lax.while_loop(_where_all, step, (keys, none - 1, none == none))[1]


def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1
) -> Any:
    """How `n` trials fall into categories of probabilities `p` over their sum, along the last axis.

    Category by category, each a binomial share of what is left.  `shape`: of the result, by
    default that of `p`, to which `p` must broadcast, and `n` to it without the last axis.
    `unroll`: as of `lax.scan`, for the loop over the categories.

    >>> from covector import random
    >>> float(random.multinomial(random.key(0), 10, cnp.array([0.2, 0.3, 0.5])).sum())
    10.0
    """
    keys, _ = as_key(key, "multinomial")
    wanted = float_dtype(dtype, "multinomial")
    n, p = _in_common("multinomial", n, p)
    if not p.ndim:
        raise ValueError("multinomial: p must have an axis; got a scalar")
    shape = p.shape if shape is None else shape_of(shape, "multinomial")
    joint_shape("multinomial", shape, p)
    lead = joint_shape("multinomial", shape[:-1], n)
    total = cnp.sum(p, -1, keepdims=True)
    p = cnp.broadcast_to(p / cnp.where(total == 0, cnp.ones_like(total), total), shape)
    start = cnp.broadcast_to(n, lead), cnp.ones(lead, p.dtype)
    by_category = split(keys, shape[-1]), cnp.moveaxis(p, -1, 0)
    _, found = lax.scan(_share, start, by_category, unroll=unroll)
    return cnp.asarray(cnp.moveaxis(found, 0, -1), wanted)


def _share(carry: Any, category: Any) -> Any:
    """What of the trials and of the probability is left after one category; and its count."""
    (left, rest), (key, p) = carry, category
    share = cnp.where(rest > 0, cnp.clip(p / rest, 0, 1), cnp.ones_like(rest))
    count = _binomial(key, left, share)
    return (left - count, rest - p), count
