"""Random programs: lists of instructions that any NumPy-shaped namespace can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

Shape = tuple[int, ...]


class Instruction(NamedTuple):
    """`run(xp, *operands)`, where operands are numbered values; `text` shows it."""

    text: str
    run: Callable[..., Any]
    operands: tuple[int, ...]


class Program(NamedTuple):
    """Inputs by shape, instructions in order; the results are the last values."""

    inputs: tuple[Shape, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    def __call__(self, xp: Any, *args: Any) -> list[Any]:
        values = list(args)
        for i in self.instructions:
            values.append(i.run(xp, *[values[k] for k in i.operands]))
        return [values[k] for k in self.outputs]

    def __repr__(self) -> str:
        lines = [f"v{k}: input {s}" for k, s in enumerate(self.inputs)]
        for n, i in enumerate(self.instructions):
            operands = ", ".join(f"v{k}" for k in i.operands)
            lines.append(f"v{n + len(self.inputs)} = {i.text}({operands})")
        return "\n".join([*lines, f"outputs {self.outputs}"])


#: Functions of one element with bounded, smooth results.
UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda xp, x: xp.sin(x),
    "cos": lambda xp, x: xp.cos(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "exp_of_tanh": lambda xp, x: xp.exp(xp.tanh(x)),
    "log_of_square": lambda xp, x: xp.log(x * x + 1.0),
    "rsqrt": lambda xp, x: 1.0 / xp.sqrt(x * x + 0.5),
    "logistic": lambda xp, x: 1.0 / (1.0 + xp.exp(-x)),
    "negative": lambda xp, x: -x,
    "halve": lambda xp, x: 0.5 * x,
    "expm1": lambda xp, x: xp.expm1(0.1 * x),
    "arctan": lambda xp, x: xp.arctan(x),
}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, y: x + y,
    "sub": lambda xp, x, y: x - y,
    "mul": lambda xp, x, y: xp.tanh(x) * y,
    "div": lambda xp, x, y: x / (y * y + 1.0),
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "where": lambda xp, x, y: xp.where(x > y, x, 0.5 * y),
    "arctan2": lambda xp, x, y: xp.arctan2(x, y * y + 1.0),
}


@st.composite
def programs(draw: Any, most: int = 8, smooth: bool = False) -> Program:
    """A program of up to `most` instructions over small arrays; `smooth`: no kinks."""
    sizes = st.sampled_from([1, 2, 3, 5, 8, 17])
    count = draw(st.integers(1, 3))
    base = tuple(draw(st.lists(sizes, min_size=0, max_size=3)))
    shapes: list[Shape] = [base] * count
    instructions: list[Instruction] = []
    for _ in range(draw(st.integers(1, most))):
        made = _instruction(draw, shapes, smooth)
        if made is not None:
            shapes.append(made[1])
            instructions.append(made[0])
    last = len(shapes) - 1
    more = draw(st.lists(st.integers(0, last), max_size=2))
    return Program((base,) * count, tuple(instructions), (last, *more))


def _instruction(draw: Any, shapes: list[Shape], smooth: bool) -> tuple[Instruction, Shape] | None:
    k = draw(st.integers(0, len(shapes) - 1))
    shape = shapes[k]
    kinds = ["unary", "binary", "reduce", "view", "view", "row"]
    maker = _MAKERS[draw(st.sampled_from(kinds))]
    return maker(draw, shapes, k, shape, smooth)


def _unary(draw: Any, shapes: Any, k: int, shape: Shape, smooth: bool) -> Any:
    name = draw(st.sampled_from(sorted(UNARY)))
    return Instruction(name, UNARY[name], (k,)), shape


def _binary(draw: Any, shapes: list[Shape], k: int, shape: Shape, smooth: bool) -> Any:
    names = sorted(BINARY.keys() - ({"maximum", "where"} if smooth else set()))
    name = draw(st.sampled_from(names))
    fits = [j for j, s in enumerate(shapes) if _broadcast(s, shape) is not None]
    j = draw(st.sampled_from(fits))
    wanted = _broadcast(shapes[j], shape)
    if wanted is None or int(np.prod(wanted)) > 4000:
        return None
    return Instruction(name, BINARY[name], (k, j)), wanted


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None


def _reduce(draw: Any, shapes: Any, k: int, shape: Shape, smooth: bool) -> Any:
    if not shape:
        return None
    axis = draw(st.integers(0, len(shape) - 1))
    keep = draw(st.booleans())
    name = draw(st.sampled_from(["sum", "mean"] if smooth else ["sum", "max", "min", "mean"]))
    out = tuple(n for d, n in enumerate(shape) if d != axis)
    if keep:
        out = tuple(1 if d == axis else n for d, n in enumerate(shape))

    def run(xp: Any, x: Any) -> Any:
        return getattr(xp, name)(x, axis=axis, keepdims=keep)

    return Instruction(f"{name}[axis={axis}, keepdims={keep}]", run, (k,)), out


def _row(draw: Any, shapes: Any, k: int, shape: Shape, smooth: bool) -> Any:
    """Something over the rows along the last axis, of the same shape."""
    if not shape:
        return None
    name = draw(st.sampled_from(["softmax", "normalise", "cumsum"] + ([] if smooth else ["sort"])))

    def run(xp: Any, x: Any) -> Any:
        if name == "softmax":
            e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
            return e / xp.sum(e, axis=-1, keepdims=True)
        if name == "normalise":
            centred = x - xp.mean(x, axis=-1, keepdims=True)
            return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 0.1)
        return 0.3 * xp.cumsum(x, axis=-1) if name == "cumsum" else xp.sort(x, axis=-1)

    return Instruction(name, run, (k,)), shape


def _view(draw: Any, shapes: list[Shape], k: int, shape: Shape, smooth: bool) -> Any:
    rank = len(shape)
    choices = ["expand"]
    if rank:
        choices += ["flip", "slice", "pad", "concatenate", "ravel", "take", "roll"]
    if rank > 1:
        choices += ["transpose", "dot"]
    name = draw(st.sampled_from(choices))
    axis = draw(st.integers(0, max(rank - 1, 0)))
    n = shape[axis] if rank else 1
    if name == "expand":
        return _at(f"expand[{axis}]", lambda xp, x: xp.expand_dims(x, axis), k,
                   (*shape[:axis], 1, *shape[axis:])) if rank < 4 else None  # fmt: skip
    if name == "flip":
        return _at(f"flip[{axis}]", lambda xp, x: xp.flip(x, axis), k, shape)
    if name == "roll":
        return _at(f"roll[{axis}]", lambda xp, x: xp.roll(x, 2, axis), k, shape)
    if name == "transpose":
        order = tuple(draw(st.permutations(range(rank))))
        return _at(f"transpose{order}", lambda xp, x: xp.transpose(x, order), k,
                   tuple(shape[d] for d in order))  # fmt: skip
    if name == "slice":
        start, step = draw(st.integers(0, n - 1)), draw(st.integers(1, 2))
        where = (slice(None),) * axis + (slice(start, None, step),)
        size = len(range(start, n, step))
        return _at(f"slice[{axis}, {start}, {step}]", lambda xp, x: x[where], k,
                   (*shape[:axis], size, *shape[axis + 1 :]))  # fmt: skip
    if name == "pad":
        low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        widths = [(low, high) if d == axis else (0, 0) for d in range(rank)]
        return _at(f"pad{widths}", lambda xp, x: xp.pad(x, widths, constant_values=0.25), k,
                   (*shape[:axis], n + low + high, *shape[axis + 1 :]))  # fmt: skip
    if name == "concatenate":
        j = draw(st.sampled_from([j for j, s in enumerate(shapes) if s == shape]))
        run = lambda xp, x, y: xp.concatenate([x, y], axis)  # noqa: E731
        out = (*shape[:axis], 2 * n, *shape[axis + 1 :])
        return (Instruction(f"concatenate[{axis}]", run, (k, j)), out) if 2 * n < 60 else None
    if name == "take":
        index = np.array(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=6)))
        where = (slice(None),) * axis + (index,)
        return _at(f"take[{axis}]{index.tolist()}", lambda xp, x: x[where], k,
                   (*shape[:axis], len(index), *shape[axis + 1 :]))  # fmt: skip
    if name == "dot":
        run = lambda xp, x: xp.tanh(xp.matmul(x, xp.swapaxes(x, -1, -2)))  # noqa: E731
        return _at("gram", run, k, (*shape[:-1], shape[-2]))
    return _at("ravel", lambda xp, x: xp.reshape(x, (-1,)), k, (int(np.prod(shape)),))


def _at(text: str, run: Any, k: int, shape: Shape) -> Any:
    return Instruction(text, run, (k,)), shape


_MAKERS = {"unary": _unary, "binary": _binary, "reduce": _reduce, "view": _view, "row": _row}


def arguments(program: Program, seed: int, dtype: Any = np.float32) -> list[np.ndarray]:
    """Distinct numbers, so that maxima and sorts have no ties."""
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(-2, 2, s)).astype(dtype) for s in program.inputs]
