"""`einsum`: sums of products by subscripts, one pair of operands after another.

Contraction paths of more than three operands are opt_einsum's (D. Smith and J. Gray, 2018).
"""

from __future__ import annotations

import functools
import math
import operator
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from covector import ops
from covector._base.named_tuple import NamedTuple
from covector.api.arrays import as_array
from covector.ir.values import typeof
from covector.numpy import convert
from covector.numpy._elementwise import multiply
from covector.numpy.convert import placed, promote, user_dtype


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: Any = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products of the operands over the labels that the result lacks.

    `einsum("ij,jk->ik", a, b)`, or interleaved `einsum(a, [0, 1], b, [1, 2], [0, 2])`.  A label
    twice in one operand takes its diagonal; `...` stands for axes that are broadcast; without `->`
    the result has the labels that appear once, in alphabetical order.  optimize: how opt_einsum
    chooses the order of the contractions, or that order.  Raises ValueError for wrong subscripts.

    >>> import covector.numpy as cnp
    >>> cnp.einsum("ij,j->i", cnp.ones((2, 3)), cnp.arange(3.0)).tolist()
    [3.0, 3.0]
    """
    convert.refuse_out("einsum", out)
    written, values = _separate(subscripts, operands)
    wanted = user_dtype(preferred_element_type, "einsum")
    arrays = [as_array(x) for x in promote(*convert.operands("einsum", *values))]
    shapes = tuple(x.shape for x in arrays)
    plan = _plan(written, shapes, _hashable(optimize))
    contract = functools.partial(
        _dot_general or ops.contract.dot_general,
        precision=precision,
        preferred_element_type=wanted,
    )
    result = _run(plan, arrays, contract)
    if wanted is not None:
        result = convert.strong(result, wanted)
    return placed(result, None, out_sharding)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> Any:
    """(order of the contractions, description of it) for `einsum` of these arguments.

    >>> import covector.numpy as cnp
    >>> cnp.einsum_path("ij,jk", cnp.ones((2, 3)), cnp.ones((3, 2)))[0]
    [(0, 1)]
    """
    written, values = _separate(subscripts, operands)
    shapes = [typeof(x).shape for x in convert.operands("einsum_path", *values)]
    return _contract_path(written, shapes, optimize)


def _contract_path(written: str, shapes: Sequence[Any], optimize: Any) -> tuple[Any, Any]:
    import opt_einsum  # here: few programs contract more than two arrays at once

    return opt_einsum.contract_path(written, *shapes, optimize=optimize, shapes=True)


def _hashable(optimize: Any) -> Any:
    return tuple(map(tuple, optimize)) if isinstance(optimize, list) else optimize


def _separate(subscripts: Any, rest: Sequence[Any]) -> tuple[str, list[Any]]:
    """(subscripts as text, operands), of either form."""
    if isinstance(subscripts, str):
        return subscripts, list(rest)
    items = [subscripts, *rest]
    values, labels = items[: len(items) // 2 * 2 : 2], items[1::2]
    terms = [_text(label) for label in labels]
    written = ",".join(terms)
    return (f"{written}->{_text(items[-1])}" if len(items) % 2 else written), values


LETTERS = string.ascii_lowercase + string.ascii_uppercase


def _symbol(k: int) -> str:
    """The k-th label: a letter, beyond those another sign."""
    return LETTERS[k] if k < len(LETTERS) else chr(0x100 + k)


def _text(labels: Sequence[Any]) -> str:
    try:
        return "".join("..." if k is Ellipsis else _symbol(operator.index(k)) for k in labels)
    except TypeError:
        raise TypeError(
            f"einsum: labels of the interleaved form must be integers or ...; got {labels!r}"
        ) from None


def _expanded(text: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """(labels of the operands, labels of the result), with labels for what `...` stands for."""
    written, arrow, output = text.partition("->")
    terms = written.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"Number of einsum subscripts, {len(terms)}, must be equal to the number of operands, "
            f"{len(shapes)}."
        )
    rest = [k for k in range(0x1000, 0x1040) if chr(k) not in text]
    hidden = "".join(map(chr, rest))
    longest = 0
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if "." not in term:
            continue
        count = len(shape) - len(term.replace("...", "", 1))
        if count < 0 or term.count(".") != 3 or "..." not in term:
            raise ValueError(f"einsum: {term!r} does not fit operand {k}, of shape {shape}")
        longest = max(longest, count)
        # As in broadcasting, the last of the axes are the same ones.
        terms[k] = term.replace("...", hidden[len(hidden) - count :])
    ellipsis = hidden[len(hidden) - longest :] if longest else ""
    if arrow:
        return terms, output.replace("...", ellipsis)
    used = "".join(terms)
    once = sorted(c for c in set(used) - set(ellipsis) if used.count(c) == 1)
    return terms, ellipsis + "".join(once)


class Step(NamedTuple):
    """Take the operands at `places` away; contract them to an array with `labels`, in any order."""

    places: tuple[int, ...]
    labels: str


class Plan(NamedTuple):
    """The labels of each operand, the steps, the labels of the result."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    output: str


@functools.lru_cache(maxsize=1024)
def _plan(written: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> Plan:
    terms, output = _expanded(written.replace(" ", ""), shapes)
    inputs = ",".join(terms)
    sizes = _sizes(terms, shapes)
    if unknown := set(output) - set(sizes):
        raise ValueError(
            f"einsum: output label {sorted(unknown)[0]!r} does not appear in the input"
        )
    if len(set(output)) != len(output):
        raise ValueError(f"einsum: a label appears more than once in the output {output!r}")
    path = _path(inputs, output, sizes, shapes, optimize)
    live, steps = list(terms), []
    for places in path:
        chosen = tuple(sorted(places, reverse=True))
        taken = {label for k in chosen for label in live[k]}
        for k in chosen:
            live.pop(k)
        needed = set(output).union(*live)
        labels = "".join(sorted(taken & needed))
        live.append(labels)
        steps.append(Step(chosen, labels))
    return Plan(tuple(terms), tuple(steps), output)


def _sizes(terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if len(term) != len(shape):
            raise ValueError(
                f"Einstein sum subscript {term!r} does not contain the correct number of indices "
                f"for operand {k}, of shape {shape}."
            )
        for label, n in zip(term, shape, strict=True):
            known = sizes.setdefault(label, n)
            if n != known and 1 not in (n, known):
                raise ValueError(
                    f"Size of label {label!r} for operand {k} ({known}) does not match previous "
                    f"terms ({n})."
                )
            sizes[label] = n if known == 1 else known
    return sizes


def _path(inputs: str, output: str, sizes: Any, shapes: Any, optimize: Any) -> Sequence[Any]:
    count = len(shapes)
    if count <= 2:
        return [tuple(range(count))]
    if optimize is False:
        return [(0, 1), *((0, count - k) for k in range(2, count))]
    if optimize is True:
        optimize = "auto"
    if count == 3 and optimize in ("auto", "optimal"):
        return _of_three(inputs.split(","), output, sizes)
    path, _ = _contract_path(f"{inputs}->{output}", shapes, optimize)
    return path


def _of_three(terms: Sequence[str], output: str, sizes: dict[str, int]) -> Sequence[Any]:
    """The best order of three operands: there are three, and importing opt_einsum takes longer.

    It counts multiplications and, where something is summed, additions.
    """

    def pair(x: set[str], y: set[str], needed: set[str]) -> tuple[int, set[str]]:
        labels = x | y
        count = math.prod(sizes[label] for label in labels)
        return count * (1 if labels <= needed else 2), labels & needed

    def cost(first: int, second: int) -> int:
        (rest,) = {0, 1, 2} - {first, second}
        x, y, z = (set(terms[k]) for k in (first, second, rest))
        one, left = pair(x, y, {*output, *z})
        return one + pair(left, z, set(output))[0]

    return [min(((0, 1), (0, 2), (1, 2)), key=lambda p: cost(*p)), (0, 1)]


def _run(plan: Plan, arrays: list[Any], contract: Any) -> Any:
    sizes = _sizes(plan.inputs, [x.shape for x in arrays])
    live = [_normal(x, labels, sizes) for x, labels in zip(arrays, plan.inputs, strict=True)]
    for step in plan.steps:
        chosen = [live.pop(k) for k in step.places][::-1]
        x, labels = chosen[0]
        for k, (y, more) in enumerate(chosen[1:], 2):
            needed = set(step.labels).union(*(m for _, m in chosen[k:]))
            x, labels = _pair(x, labels, y, more, needed, contract)
        live.append(_summed(x, labels, step.labels))
    return _arranged(*live[0], plan.output, sizes)


def _normal(x: Any, labels: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """Without axes of size 1 that stand for larger ones; each label once: its diagonal."""
    ones = [d for d, label in enumerate(labels) if x.shape[d] == 1 and sizes[label] != 1]
    x = ops.shape.squeeze(x, ones)
    labels = "".join(label for d, label in enumerate(labels) if d not in ones)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = _diagonal(x, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return x, labels


def _diagonal(x: Any, first: int, second: int) -> Any:
    """The diagonal of two axes of one size, as the last axis."""
    x = as_array(x)
    rest = [d for d in range(x.ndim) if d not in (first, second)]
    n = x.shape[first]
    moved = ops.shape.transpose(x, (*rest, first, second))
    flat = ops.shape.reshape(moved, (*(x.shape[d] for d in rest), n * n))
    return ops.shape.slice_along(flat, len(rest), 0, n * n, n + 1)


def _summed(x: Any, labels: str, kept: str) -> tuple[Any, str]:
    """`x` summed over the labels that are not kept."""
    away = tuple(d for d, label in enumerate(labels) if label not in kept)
    return _add_up(x, away), "".join(label for label in labels if label in kept)


def _arranged(x: Any, labels: str, wanted: str, sizes: dict[str, int]) -> Any:
    """`x` with its axes in the wanted order."""
    x = ops.shape.transpose(x, [labels.index(label) for label in wanted if label in labels])
    shape = [sizes[label] for label in wanted]
    places = [d for d, label in enumerate(wanted) if label in labels]
    return x if len(places) == len(wanted) else ops.shape.broadcast_in_dim(x, shape, places)


def _add_up(x: Any, axes: tuple[int, ...]) -> Any:
    boolean = typeof(x).dtype == np.bool_
    return (ops.reduce.reduce_or if boolean else ops.reduce.reduce_sum)(x, axes)


def _pair(
    x: Any, x_labels: str, y: Any, y_labels: str, needed: set[str], contract: Any
) -> tuple[Any, str]:
    """The contraction of two arrays over the labels that are not needed."""
    lonely = [
        tuple(d for d, label in enumerate(mine) if label not in other and label not in needed)
        for mine, other in ((x_labels, y_labels), (y_labels, x_labels))
    ]
    x, y = _add_up(x, lonely[0]), _add_up(y, lonely[1])
    x_labels, y_labels = (
        "".join(label for d, label in enumerate(labels) if d not in away)
        for labels, away in zip((x_labels, y_labels), lonely, strict=True)
    )
    common = [label for label in x_labels if label in y_labels]
    over = [label for label in common if label not in needed]
    batch = [label for label in common if label in needed]
    rest = [label for label in (*x_labels, *y_labels) if label not in common]
    out = "".join((*batch, *rest))
    if not over:
        return _elementwise(x, x_labels, y, y_labels, out), out
    numbers = tuple(
        (tuple(map(x_labels.index, names)), tuple(map(y_labels.index, names)))
        for names in (over, batch)
    )
    x, y = promote(x, y)
    return contract(x, y, numbers), out


def _elementwise(x: Any, x_labels: str, y: Any, y_labels: str, out: str) -> Any:
    """The product, with nothing to sum."""
    sizes = dict(zip(x_labels, typeof(x).shape, strict=True))
    sizes.update(zip(y_labels, typeof(y).shape, strict=True))
    shape = [sizes[label] for label in out]
    return multiply(*(
        ops.shape.broadcast_in_dim(v, shape, [out.index(label) for label in labels])
        for v, labels in ((x, x_labels), (y, y_labels))
    ))  # fmt: skip
