"""Operations whose work depends on the data: sorting, selection, gathers, scatters, randomness."""

import numpy as np

from benchmarks.row import floats, row

MILLION, TEN_MILLION = 1_000_000, 10_000_000


@row(goal=0.15, numpy_goal=1.2, inputs=lambda rng: (floats(rng, MILLION),), rtol=0)
def sort(lib):
    """sort of 1 M floats"""
    return lib.jit(lib.numpy.sort)


@sort.numpy
def _(x):
    return np.sort(x)


@row(goal=0.15, numpy_goal=1.2, inputs=lambda rng: (floats(rng, MILLION),), rtol=0)
def argsort(lib):
    """stable argsort of 1 M floats"""
    return lib.jit(lib.numpy.argsort)


@argsort.numpy
def _(x):
    return np.argsort(x, kind="stable")


@row(goal=0.15, numpy_goal=1.2, inputs=lambda rng: (floats(rng, 1000, 1000),), rtol=0)
def sort_rows(lib):
    """sort of each row of 1000×1000 floats"""
    return lib.jit(lambda x: lib.numpy.sort(x, axis=1))


@sort_rows.numpy
def _(x):
    return np.sort(x, axis=1)


@row(goal=0.15, numpy_goal=1.2, inputs=lambda rng: (floats(rng, 100, 10_000),), rtol=0)
def argsort_columns(lib):
    """stable argsort of each column of 100×10,000 floats"""
    return lib.jit(lambda x: lib.numpy.argsort(x, axis=0))


@argsort_columns.numpy
def _(x):
    return np.argsort(x, axis=0, kind="stable")


@row(goal=0.15, numpy_goal=1.2, inputs=lambda rng: (floats(rng, MILLION),), rtol=0)
def top_ten(lib):
    """the ten largest of 1 M floats and where they are, by lax.top_k"""
    return lib.jit(lambda x: lib.lax.top_k(x, 10))


@top_ten.numpy
def _(x):
    places = np.argpartition(x, -10)[-10:]
    places = places[np.argsort(-x[places])]
    return x[places], places


def rows_inputs(rng):
    return floats(rng, 100_000, 64), rng.integers(100_000, size=100_000, dtype=np.int32)


@row(goal=0.8, inputs=rows_inputs, rtol=0)
def gather_rows(lib):
    """100,000 rows of 64 floats, from as many, in any order"""
    return lib.jit(lambda table, places: table[places])


@gather_rows.numpy
def _(table, places):
    return table[places]


def groups(rng):
    return rng.integers(1000, size=MILLION, dtype=np.int32), floats(rng, MILLION)


@row(goal=0.8, inputs=groups, rtol=1e-4)
def scatter_add(lib):
    """sums of 1 M floats in 1,000 groups, by .at[].add"""
    return lib.jit(lambda group, x: lib.numpy.zeros(1000, x.dtype).at[group].add(x))


@scatter_add.numpy
def _(group, x):
    return np.bincount(group, x, 1000)


def words(rng):
    return floats(rng, 10_000, 128), rng.integers(10_000, size=8192, dtype=np.int32)


@row(goal=0.8, inputs=words)
def embedding_grad(lib):
    """gradient by a table of 10,000×128 of a loss over 8,192 of its rows"""
    return lib.jit(lib.grad(lambda table, word: (table[word] ** 2).sum()))


@embedding_grad.numpy
def _(table, word):
    slope = np.zeros_like(table)
    np.add.at(slope, word, 2 * table[word])
    return slope


def queries(rng):
    return np.sort(floats(rng, 100_000)), floats(rng, 100_000)


@row(goal=0.8, inputs=queries, rtol=0)
def searchsorted(lib):
    """places of 100,000 floats among 100,000 sorted ones"""
    return lib.jit(lib.numpy.searchsorted)


@searchsorted.numpy
def _(table, x):
    return np.searchsorted(table, x)


def seed(rng):
    return (np.array(rng.integers(1 << 31), np.uint32),)


@row(goal=0.3, inputs=seed)
def uniform(lib):
    """10 M uniform variates from a key"""
    random = lib.random
    return lib.jit(lambda seed: random.uniform(random.key(seed), (TEN_MILLION,)))


@row(goal=0.4, inputs=seed, rtol=1e-4)
def normal(lib):
    """10 M normal variates from a key"""
    random = lib.random
    return lib.jit(lambda seed: random.normal(random.key(seed), (TEN_MILLION,)))


@row(goal=0.3, inputs=seed, rtol=0)
def permutation(lib):
    """a permutation of 1 M numbers from a key"""
    random = lib.random
    return lib.jit(lambda seed: random.permutation(random.key(seed), MILLION))
