"""Dimension numbers, padding and shapes of convolutions, as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covector._base.containers import is_listed
from covector.lax._windows import pads_of
from covector.ops.convolution import ConvDimensionNumbers, arranged
from covector.ops.windows import covered, windows_in

#: What `dimension_numbers` may be: three words, such as ('NHWC', 'HWIO', 'NHWC'), the numbers
#: themselves, or None for ('NC…', 'OI…', 'NC…').
ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None

_HEADS = ("NC", "OI", "NC")


def conv_dimension_numbers(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> ConvDimensionNumbers:
    """Dimension numbers as axes, from words (or None: batch and features first).

    A word has 'N' and 'C' (of rhs 'O' and 'I') and any other letter once for each spatial axis.
    TypeError for operands of different ranks and for words that do not fit.

    >>> from covector import lax
    >>> lax.conv_dimension_numbers((8, 9, 9, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            f"convolution: lhs and rhs must have the same number of axes; got the shapes "
            f"{tuple(lhs_shape)} and {tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        plain = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(plain, plain, plain)
    if not is_listed(dimension_numbers) or len(dimension_numbers) != 3:
        raise TypeError(
            "convolution: dimension_numbers must be None, a ConvDimensionNumbers, or three words "
            f"such as ('NHWC', 'HWIO', 'NHWC'); got {dimension_numbers!r}"
        )
    if not all(isinstance(word, str) for word in dimension_numbers):
        raise TypeError(
            f"convolution: dimension_numbers must be words; got {dimension_numbers!r} (wanted a "
            "ConvDimensionNumbers, if these are axes)"
        )
    for k, word in enumerate(dimension_numbers):
        if len(word) != len(lhs_shape):
            raise TypeError(
                f"convolution: dimension_numbers[{k}] must have a letter for each of the "
                f"{len(lhs_shape)} axes of lhs {tuple(lhs_shape)} and rhs {tuple(rhs_shape)}; got "
                f"{word!r}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(
    dimension_numbers: Sequence[str],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The axes that three words name: batch, features (of rhs: output and input features), then
    the spatial ones in the order in which rhs has them.  TypeError for words that do not fit.

    >>> from covector import lax
    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NWHC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 2, 1))
    """
    for k, (word, head) in enumerate(zip(dimension_numbers, _HEADS, strict=True)):
        if any(word.count(letter) != 1 for letter in head):
            raise TypeError(
                f"convolution: dimension_numbers[{k}] must have the letters {head[0]!r} and "
                f"{head[1]!r} once; got {word!r}"
            )
        if len(set(word)) != len(word):
            raise TypeError(
                f"convolution: dimension_numbers[{k}] must have each letter once; got {word!r}"
            )
    spatial = [set(word) - set(head) for word, head in zip(dimension_numbers, _HEADS, strict=True)]
    if spatial[0] != spatial[1] or spatial[1] != spatial[2]:
        raise TypeError(
            "convolution: the words of dimension_numbers must have the same spatial letters; got "
            f"{tuple(dimension_numbers)}"
        )
    order = [c for c in dimension_numbers[1] if c not in "OI"]
    lhs, rhs, out = (
        tuple(word.index(c) for c in (*head, *order))
        for word, head in zip(dimension_numbers, _HEADS, strict=True)
    )
    return lhs, rhs, out


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of operands in the order NC…, OI….

    >>> from covector import lax
    >>> lax.conv_shape_tuple((2, 3, 8, 8), (4, 3, 3, 3), (2, 1), "SAME")
    (2, 4, 4, 8)
    """
    pairs = pads_of("convolution", pads, lhs_shape[2:], rhs_shape[2:], strides)
    if lhs_shape[0] % batch_group_count:
        raise ValueError(
            f"conv_shape_tuple: batch_group_count={batch_group_count} must divide the batch of "
            f"lhs, {lhs_shape[0]}"
        )
    axes = zip(lhs_shape[2:], rhs_shape[2:], strides, pairs, strict=True)
    sizes = [windows_in(n + low + high, k, stride) for n, k, stride, (low, high) in axes]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *sizes)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a convolution of operands in the order that the words say.

    >>> from covector import lax
    >>> words = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_general_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (2, 1), "SAME", words)
    (2, 4, 8, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(
        [lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs], window_strides, padding
    )
    return arranged(shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a transposed convolution; explicit padding is that of the dilated lhs.

    >>> from covector import lax
    >>> words = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_transpose_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (2, 1), "SAME", words)
    (2, 16, 8, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape, window = [lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs]
    pairs = transposed_pads(padding, window[2:], window_strides)
    sizes = [covered(n, s) for n, s in zip(shape[2:], window_strides, strict=True)]
    full = conv_shape_tuple([*shape[:2], *sizes], window, (1,) * len(sizes), pairs)
    return arranged(full, out)


def transposed_pads(
    padding: Any, window: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """The padding of the dilated lhs of a transposed convolution.

    'SAME': the result is `stride` times as long as lhs; 'VALID': as long as what a convolution
    without padding makes lhs of.  Pairs are as they are.
    """
    if not isinstance(padding, str):
        return pads_of("convolution", padding, window, window, strides)
    if padding not in ("SAME", "VALID"):
        raise ValueError(
            f"conv_transpose: padding must be 'SAME', 'VALID' or pairs (low, high); got {padding!r}"
        )
    pairs: list[tuple[int, int]] = []
    for k, s in zip(window, strides, strict=True):
        total, low = k + s - 2, k - 1
        if padding == "VALID":
            total += max(k - s, 0)
        elif s <= k - 1:
            low = -(-total // 2)
        pairs.append((low, total - low))
    return pairs
