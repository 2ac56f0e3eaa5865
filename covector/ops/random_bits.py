"""Random keys and bits: the counter-based generator Threefry-2x32 of 20 rounds.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
A bit depends on its key and on its own index alone, so that a kernel makes it where it is used.
A key is one 64-bit word: its first 32-bit word in the low half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from covector import dtypes, ops
from covector.ir.avals import ShapedArray
from covector.ir.index import affine
from covector.ir.op import Absent, Op, Sample
from covector.ir.scalar import Expr, cast, const, expr
from covector.ir.values import typeof
from covector.ops import _check
from covector.ops.families import Pointwise, like

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA  # of the key schedule (Skein's, cut to 32 bits)
U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)


def _rounds(
    k0: Any, k1: Any, x0: Any, x1: Any, rotate: Callable[[Any, int], Any], word: Any
) -> Any:
    """The permutation of the counter (x0, x1) under the key (k0, k1); `word` makes a constant."""
    keys = (k0, k1, k0 ^ k1 ^ word(PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for block in range(5):
        for by in ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = rotate(x1, by) ^ x0
        x0 = x0 + keys[(block + 1) % 3]
        x1 = x1 + keys[(block + 2) % 3] + word(block + 1)
    return x0, x1


def _threefry_numpy(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    def rotate(x: Any, by: int) -> Any:
        return x << np.uint32(by) | x >> np.uint32(32 - by)

    with np.errstate(over="ignore"):
        words = [np.asarray(v, U32) for v in (k0, k1, x0, x1)]
        return _rounds(words[0], words[1], words[2], words[3], rotate, np.uint32)


def _threefry_expr(k0: Expr, k1: Expr, x0: Expr, x1: Expr) -> tuple[Expr, Expr]:
    def rotate(x: Expr, by: int) -> Expr:
        left = expr("shift_left", "uint32", x, const(by, "uint32"))
        return left | expr("shift_right_logical", "uint32", x, const(32 - by, "uint32"))

    def word(n: int) -> Expr:
        return const(n, "uint32")

    return _rounds(k0, k1, x0, x1, rotate, word)


def _words_numpy(keys: Any) -> tuple[Any, Any]:
    keys = np.asarray(keys, U64)
    return keys.astype(U32), (keys >> np.uint64(32)).astype(U32)


def _key_numpy(first: Any, second: Any) -> Any:
    return np.asarray(second).astype(U64) << np.uint64(32) | np.asarray(first).astype(U64)


def _words_expr(key: Expr) -> tuple[Expr, Expr]:
    """The two words of a 64-bit element, the low one first."""
    high = expr("shift_right_logical", "uint64", key, const(32, "uint64"))
    return cast(key, "uint32"), cast(high, "uint32")


def _join_expr(low: Expr, high: Expr) -> Expr:
    up = expr("shift_left", "uint64", cast(high, "uint64"), const(32, "uint64"))
    return up | cast(low, "uint64")


def _check_key(op: str, aval: ShapedArray) -> None:
    if not isinstance(aval.dtype, dtypes.KeyType):
        raise TypeError(
            f"{op}: argument 0 must be an array of random keys, as jax.random.key() makes; "
            f"got {aval.str_short()}"
        )
    if aval.dtype != dtypes.threefry_key:
        raise NotImplementedError(f"{op}: keys of the generator {aval.dtype.impl!r} have no rules")


class _Random(Op):
    """What ops on keys have in common: no derivative."""

    jvp = Absent("integer")
    transpose = Absent("not linear")

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """Each key by itself: the op, with the batch axis first."""
        return self(ops.shape.move_axis(args[0], dims[0], 0)), 0


class Threefry2x32(Pointwise):
    """The permutation itself, of four arrays of uint32: two words of key, two of counter."""

    name = "threefry2x32"
    multiple_results = True
    arity = 4
    accepts = "u"
    jvp = Absent("integer")
    transpose = Absent("not linear")
    numpy = staticmethod(_threefry_numpy)

    def result(self, *avals: ShapedArray) -> Any:
        """Two arrays of uint32."""
        for k, aval in enumerate(avals):
            if aval.dtype != U32:
                raise TypeError(
                    f"threefry2x32: argument {k} must be uint32; got {aval.str_short()}"
                )
        out = super().result(*avals)
        return out, out

    def batch(self, tools: Any, size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
        """As every elementwise op, for both results."""
        out, dim = super().batch(tools, size, args, dims)
        return out, [dim, dim]

    def element(self, dtype: str, *args: Expr) -> Any:
        """Twenty rounds, unrolled."""
        return _threefry_expr(*args)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Arrays; scalar keys."""
        scalar, x = ShapedArray((), U32), ShapedArray((3, 5), U32)
        yield Sample(threefry2x32, (x, x, x, x))
        yield Sample(threefry2x32, (scalar, scalar, x, x))


class RandomWrap(_Random):
    """Keys from their words: uint32[..., 2] to key[...]."""

    name = "random_wrap"
    arity = 1
    impl: str = "threefry2x32"

    def result(self, words: ShapedArray) -> ShapedArray:
        """The shape without the last axis."""
        dtype = dtypes.key_type(self.impl)
        if words.dtype != U32 or not words.shape or words.shape[-1] != dtype.words:
            raise TypeError(
                f"random_wrap: key data of the generator {self.impl!r} must be uint32 with a last "
                f"axis of size {dtype.words}; got {words.str_short()}"
            )
        if dtype != dtypes.threefry_key:
            raise NotImplementedError(f"random_wrap: the generator {self.impl!r} has no rules")
        return ShapedArray(words.shape[:-1], dtype)

    def numpy(self, words: Any) -> Any:
        """Both words in one."""
        return _key_numpy(words[..., 0], words[..., 1])

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """Both words in one."""
        return _join_expr(*(ask.at(0, [*index, affine(j)]) for j in (0, 1)))

    def stablehlo(self, writer: Any, words: Any) -> Any:
        """A bitcast: the first word is the low half."""
        return writer.emit("stablehlo.bitcast_convert", [words])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """One key, many."""
        for shape in ((2,), (3, 4, 2)):
            yield Sample(RandomWrap(), (ShapedArray(shape, U32),))


class RandomUnwrap(_Random):
    """The words of keys: key[...] to uint32[..., 2]."""

    name = "random_unwrap"
    arity = 1

    def result(self, keys: ShapedArray) -> ShapedArray:
        """One axis more."""
        _check_key(self.name, keys)
        return ShapedArray((*keys.shape, 2), U32)

    def numpy(self, keys: Any) -> Any:
        """The halves of the word."""
        return np.stack(_words_numpy(keys), -1)

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The low half, or the high one."""
        by = ask.index(affine(index[-1]) * 32, "uint64")
        return cast(expr("shift_right_logical", "uint64", ask.at(0, index[:-1]), by), "uint32")

    def stablehlo(self, writer: Any, keys: Any) -> Any:
        """A bitcast: the first word is the low half."""
        return writer.emit("stablehlo.bitcast_convert", [keys])

    @staticmethod
    def samples() -> Iterable[Sample]:
        """One key, many."""
        for shape in ((), (3, 4)):
            yield Sample(RandomUnwrap(), (ShapedArray(shape, dtypes.threefry_key),))


class RandomSeed(Pointwise):
    """Keys from integers: the words are the high and the low 32 bits of a 64-bit seed; of a
    narrower one, 0 and its value modulo 2^32."""

    name = "random_seed"
    arity = 1
    accepts = "iu"
    jvp = Absent("integer")
    transpose = Absent("not linear")
    impl: str = "threefry2x32"

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The shape of the seeds."""
        if self.impl != "threefry2x32":
            raise NotImplementedError(f"random_seed: the generator {self.impl!r} has no rules")
        _check.check_kind(self.name, 0, avals[0], self.accepts)
        return ShapedArray(avals[0].shape, dtypes.key_type(self.impl))

    def numpy(self, seeds: Any) -> Any:
        """By words."""
        seeds = np.asarray(seeds)
        low = seeds.astype(U32)
        if seeds.dtype.itemsize < 8:
            return _key_numpy(np.zeros_like(low), low)
        return _key_numpy((seeds.view(U64) >> np.uint64(32)).astype(U32), low)

    def element(self, dtype: str, *args: Expr) -> Expr:
        """By words."""
        (seed,) = args
        if seed.dtype not in ("int64", "uint64"):
            return _join_expr(const(0, "uint32"), cast(seed, "uint32"))
        low, high = _words_expr(cast(seed, "uint64"))
        return _join_expr(high, low)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every width, both signs."""
        for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64"):
            yield Sample(RandomSeed(), (ShapedArray((3,), dtype),))
        yield Sample(RandomSeed(), (np.array([2**40 + 5, -(2**40), -1, 2**63 - 1], np.int64),))
        yield Sample(RandomSeed(), (ShapedArray((), "int32"),))


class RandomFoldIn(Pointwise):
    """New keys from keys and uint32 numbers, one each (scalars are broadcast)."""

    name = "random_fold_in"
    arity = 2
    jvp = Absent("integer")
    transpose = Absent("not linear")

    def result(self, *avals: ShapedArray) -> ShapedArray:
        """The keys' dtype, the common shape."""
        _check.check_count(self.name, avals, 2)
        keys, numbers = avals
        _check_key(self.name, keys)
        if numbers.dtype != U32:
            raise TypeError(
                f"random_fold_in: the numbers must be uint32; got {numbers.str_short()}"
            )
        return ShapedArray(_check.same_shape(self.name, avals), keys.dtype)

    @staticmethod
    def numpy(keys: Any, numbers: Any) -> Any:
        """The permutation of (0, number)."""
        return _key_numpy(*_threefry_numpy(*_words_numpy(keys), np.zeros((), U32), numbers))

    def element(self, dtype: str, *args: Expr) -> Expr:
        """The permutation of (0, number)."""
        key, number = args
        return _join_expr(*_threefry_expr(*_words_expr(key), const(0, "uint32"), number))

    @staticmethod
    def samples() -> Iterable[Sample]:
        """One of each, many of each, scalars mixed."""
        key, keys = (ShapedArray(s, dtypes.threefry_key) for s in ((), (3, 4)))
        number, numbers = (ShapedArray(s, U32) for s in ((), (3, 4)))
        for args in ((key, number), (keys, numbers), (key, numbers), (keys, number)):
            yield Sample(_fold_in, args)


class _Stream(_Random):
    """For each key, values at every index of `shape`, from the permutation of the flat index."""

    shape: tuple[int, ...]

    def out_dtype(self, keys: ShapedArray) -> Any:
        """The dtype of a value."""
        raise TypeError(f"{self.name} has no dtype rule")

    def result(self, keys: ShapedArray) -> ShapedArray:
        """The shape of the keys, then `shape`."""
        _check_key(self.name, keys)
        if any(n < 0 for n in self.shape):
            raise ValueError(f"{self.name}: shape={self.shape} has a negative size")
        return ShapedArray((*keys.shape, *self.shape), self.out_dtype(keys))

    def numpy(self, keys: Any) -> Any:
        """Of the counters 0, 1, 2, … as 64-bit numbers, high word first."""
        keys = np.asarray(keys)
        counts = np.arange(math.prod(self.shape), dtype=U64).reshape(self.shape)
        first, second = (w.reshape((*keys.shape, *[1] * len(self.shape)))
                         for w in _words_numpy(keys))  # fmt: skip
        low, high = _words_numpy(counts)
        return self.value_numpy(*_threefry_numpy(first, second, high, low))

    def kernel(self, ask: Any, index: Sequence[Any]) -> Expr:
        """The counter is the element's own flat index."""
        rank = len(ask.shapes[0])
        flat = affine(0)
        for n, i in zip(self.shape, index[rank:], strict=True):
            flat = flat * n + i
        if math.prod(self.shape) <= 1 << 32:
            high, low = const(0, "uint32"), ask.index(flat, "uint32")
        else:
            low, high = _words_expr(ask.index(flat, "uint64"))
        return self.value(*_threefry_expr(*_words_expr(ask.at(0, index[:rank])), high, low))

    def value_numpy(self, x0: Any, x1: Any) -> Any:
        """The value made of the permuted counter."""
        raise TypeError(f"{self.name} has no value rule")

    def value(self, x0: Expr, x1: Expr) -> Expr:
        """The value made of the permuted counter."""
        raise TypeError(f"{self.name} has no value rule")

    def stablehlo(self, writer: Any, keys: Any) -> Any:
        """Elementwise, of the keys repeated and the flat index."""
        return writer.lower(self._by_counter, [keys])[0]

    def _by_counter(self, keys: Any) -> list[Any]:
        point, rank = ops.pointwise, typeof(keys).ndim
        shape = (*typeof(keys).shape, *self.shape)
        words = random_unwrap(keys)
        first, second = (
            ops.shape.broadcast_in_dim(
                ops.shape.squeeze(ops.shape.slice_along(words, rank, j, j + 1), (rank,)),
                shape,
                tuple(range(rank)),
            )
            for j in (0, 1)
        )
        size = math.prod(self.shape)
        if size <= 1 << 32:
            counts = ops.shape.iota(U32, (size,), 0)
            low, high = counts, point.xor(counts, counts)
        else:
            counts = ops.shape.iota(U64, (size,), 0)
            low = ops.cast.convert_element_type(counts, U32)
            high = ops.cast.convert_element_type(
                point.shift_right_logical(counts, like(counts, 32)), U32
            )
        low, high = (ops.shape.reshape(w, self.shape) for w in (low, high))
        low, high = (
            ops.shape.broadcast_in_dim(w, shape, tuple(range(rank, len(shape))))
            for w in (low, high)
        )
        return [self.value_op(*threefry2x32(first, second, high, low))]

    def value_op(self, x0: Any, x1: Any) -> Any:
        """The value made of the permuted counter, in terms of ops."""
        raise TypeError(f"{self.name} has no value rule")


class RandomSplit(_Stream):
    """`shape` new keys from each key."""

    name = "random_split"
    arity = 1

    def out_dtype(self, keys: ShapedArray) -> Any:
        """Keys of the same generator."""
        return keys.dtype

    def value_numpy(self, x0: Any, x1: Any) -> Any:
        """Both words."""
        return _key_numpy(x0, x1)

    def value(self, x0: Expr, x1: Expr) -> Expr:
        """Both words."""
        return _join_expr(x0, x1)

    def value_op(self, x0: Any, x1: Any) -> Any:
        """Both words."""
        return random_wrap(ops.shape.stack([x0, x1], typeof(x0).ndim))

    @staticmethod
    def samples() -> Iterable[Sample]:
        """One key, many; one axis, several, none."""
        for keys, shape in (((), (2,)), ((), (2, 3)), ((3,), (4,)), ((2, 2), ()), ((), (0,))):
            yield Sample(RandomSplit(shape), (ShapedArray(keys, dtypes.threefry_key),))


class RandomBits(_Stream):
    """Random unsigned integers of `bit_width` 8, 16, 32 or 64 bits, of `shape` for each key."""

    name = "random_bits"
    arity = 1
    bit_width: int
    shape: tuple[int, ...]

    def out_dtype(self, keys: ShapedArray) -> Any:
        """The unsigned dtype of that width."""
        if self.bit_width not in (8, 16, 32, 64):
            raise TypeError(f"random_bits: bit_width must be 8, 16, 32 or 64; got {self.bit_width}")
        return np.dtype(f"uint{self.bit_width}")

    def value_numpy(self, x0: Any, x1: Any) -> Any:
        """Both words; or their exclusive or, cut to the width."""
        if self.bit_width == 64:
            return _key_numpy(x1, x0)
        return (x0 ^ x1).astype(f"uint{self.bit_width}")

    def value(self, x0: Expr, x1: Expr) -> Expr:
        """Both words; or their exclusive or, cut to the width."""
        if self.bit_width == 64:
            return _join_expr(x1, x0)
        return cast(x0 ^ x1, f"uint{self.bit_width}")

    def value_op(self, x0: Any, x1: Any) -> Any:
        """Both words; or their exclusive or, cut to the width."""
        point, convert = ops.pointwise, ops.cast.convert_element_type
        if self.bit_width < 64:
            return convert(point.xor(x0, x1), np.dtype(f"uint{self.bit_width}"))
        return ops.cast.bitcast_convert_type(ops.shape.stack([x1, x0], typeof(x0).ndim), U64)

    @staticmethod
    def samples() -> Iterable[Sample]:
        """Every width; one key, many; several shapes."""
        for width in (8, 16, 32, 64):
            for keys, shape in (((), (37,)), ((), (3, 5)), ((3,), (4,)), ((2,), ())):
                aval = ShapedArray(keys, dtypes.threefry_key)
                yield Sample(RandomBits(width, shape), (aval,))
        yield Sample(RandomBits(32, (0, 3)), (ShapedArray((), dtypes.threefry_key),))


threefry2x32, random_unwrap, _fold_in = Threefry2x32(), RandomUnwrap(), RandomFoldIn()


def random_wrap(words: Any, impl: str = "threefry2x32") -> Any:
    """Keys from their words."""
    return RandomWrap(impl)(words)


def random_seed(seeds: Any, impl: str = "threefry2x32") -> Any:
    """Keys from integers."""
    return RandomSeed(impl)(seeds)


def random_fold_in(keys: Any, numbers: Any) -> Any:
    """New keys from keys and uint32 numbers."""
    return _fold_in(keys, numbers)


def random_split(keys: Any, shape: Sequence[int]) -> Any:
    """`shape` new keys from each key."""
    return RandomSplit(tuple(shape))(keys)


def random_bits(keys: Any, bit_width: int, shape: Sequence[int]) -> Any:
    """Random unsigned integers of `bit_width` bits, of `shape` for each key."""
    return RandomBits(bit_width, tuple(shape))(keys)
