"""What a program costs: arithmetic by its equations, memory traffic by its equations or kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from covector.compiler.program import Copy, KernelCall, LibraryCall, Loop, Program
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal

#: Operations that move or make elements without arithmetic.
_FREE: Final = frozenset(
    ["reshape", "transpose", "broadcast_in_dim", "squeeze", "expand_dims", "slice",
     "dynamic_slice", "dynamic_update_slice", "gather", "concatenate", "pad", "rev", "iota",
     "copy", "convert_element_type", "bitcast_convert_type", "stop_gradient", "split", "stack",
     "full"]
)  # fmt: skip
#: What counts apart from plain arithmetic, as XLA counts.
_TRANSCENDENTAL: Final = frozenset(
    ["sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh",
     "acosh", "atanh", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sqrt", "rsqrt",
     "cbrt", "pow", "erf", "erfc", "erf_inv", "lgamma", "digamma"]
)  # fmt: skip


def cost_of_jaxpr(jaxpr: Jaxpr) -> dict[str, float]:
    """'flops', 'transcendentals', 'bytes accessed', each operation by itself."""
    total = {"flops": 0.0, "transcendentals": 0.0, "bytes accessed": 0.0}
    for eqn in jaxpr.eqns:
        for name, n in _cost(eqn).items():
            total[name] += n
    return total


def _cost(eqn: Equation) -> dict[str, float]:
    name = eqn.op.name
    inside = _programs(eqn.op)
    if inside:
        costs = [cost_of_jaxpr(p) for p in inside]
        times = eqn.op.params.get("length", 1) if name == "scan" else 1
        if name == "cond":  # the dearest branch
            return max(costs, key=lambda c: c["flops"])
        return {key: times * sum(c[key] for c in costs) for key in costs[0]}
    made = sum(v.aval.size for v in eqn.outvars)
    read = sum(v.aval.size for v in eqn.invars)
    kind = "transcendentals" if name in _TRANSCENDENTAL else "flops"
    cost = {"bytes accessed": float(_bytes(eqn))}
    if name in ("dot_general", "conv_general_dilated"):
        cost["flops"] = 2.0 * made * _depth(eqn)
    elif name.startswith(("reduce_", "argm", "cum")):
        cost["flops"] = float(read)
    elif name not in _FREE:
        cost[kind] = float(made)
    return cost


def _programs(op: Any) -> list[Jaxpr]:
    found: list[Jaxpr] = []
    for value in op.params.values():
        several = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
        found += [x.jaxpr for x in several if isinstance(x, ClosedJaxpr)]
    return found


def _depth(eqn: Equation) -> float:
    """Products summed for one element of a contraction."""
    left, right = (v.aval for v in eqn.invars[:2])
    out = eqn.outvars[0].aval
    if eqn.op.name == "dot_general":
        return (left.size * right.size / max(out.size * _batch(eqn), 1)) ** 0.5
    numbers: Sequence[Sequence[int]] = eqn.op.params["dimension_numbers"]
    return right.size / max(right.shape[numbers[1][0]], 1)


def _batch(eqn: Equation) -> float:
    """Elements of the batch axes of a dot_general."""
    dims = eqn.op.params.get("dimension_numbers")
    if dims is None:
        return 1.0
    axes: Sequence[int] = dims[1][0]
    size = 1.0
    for d in axes:
        size *= eqn.invars[0].aval.shape[d]
    return size


def _bytes(eqn: Equation) -> int:
    read = sum(v.aval.nbytes for v in eqn.invars if not isinstance(v, Literal))
    return read + sum(v.aval.nbytes for v in eqn.outvars)


def cost_of_program(program: Program) -> float:
    """Bytes that the kernels and library calls of a planned program read and write."""
    slots = program.slots
    total = 0.0

    def size(numbers: Sequence[int]) -> float:
        return float(sum(slots[n].nbytes for n in numbers))

    for step in program.steps:
        if isinstance(step, KernelCall):
            total += size(step.slots)
        elif isinstance(step, LibraryCall):
            total += size([*step.inputs, *step.outputs])
            total += sum(size(f.slots) for f in (*step.leaders, *step.followers))
        elif isinstance(step, Copy):
            total += 2 * size([step.source])
        elif isinstance(step, Loop):
            total += (step.length or 1) * cost_of_program(program.programs[step.body])
        else:
            total += max(cost_of_program(program.programs[n]) for n in step.programs)
    return total
