"""StableHLO text of a Jaxpr: what a PJRT plugin (real XLA) compiles.

`module_text` writes a whole program; each operation's `stablehlo` rule is handed a `Writer`.
Operations are in MLIR's generic form, so that one printer serves all of them; types without a
counterpart (random keys) are what they are stored as.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, final

import numpy as np

from covector import dtypes
from covector.ir.avals import ShapedArray
from covector.ir.hlo_scalar import COMPOSED, ELEMENTWISE
from covector.ir.hlo_text import attribute, element, elements, in_range, tensor_type
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.op import has_rule
from covector.ir.scalar import COMPARISONS, Expr, name, walk

BOOL = np.dtype(np.bool_)


@final
class Value:
    """An SSA value: its name and its abstract value."""

    __slots__ = ("aval", "name")

    def __init__(self, name: str, aval: ShapedArray) -> None:
        self.name, self.aval = name, aval

    def __repr__(self) -> str:
        return f"{self.name}: {tensor_type(self.aval)}"


@final
class Writer:
    """Writes the body of one function; what `stablehlo` rules are handed.

    `out_avals`: of the equation being written.  `tools.trace(fun, avals)` stages a Python function
    (None: `lower` is not possible); `expand(expr)`: a scalar expression in simpler ops.
    """

    __slots__ = ("_expand", "_functions", "_next", "_tools", "lines", "out_avals")

    def __init__(self, functions: dict[Any, Any], tools: Any, expand: Any) -> None:
        self._functions, self._tools, self._expand = functions, tools, expand
        self.lines: list[str] = []
        self._next = 0
        self.out_avals: Sequence[ShapedArray] = ()

    # Emitting

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        out: ShapedArray | Sequence[ShapedArray] | None = None,
        regions: Sequence[str] = (),
        **attributes: Any,
    ) -> Any:
        """Write `op(operands)`; its value, or a list of them if it has not just one.

        out: avals of the results (default: the equation's).  Attributes: an int is an i64, a tuple
        of ints or of bools an array; a str is MLIR text as it stands.
        """
        if out is None:
            out = self.out_avals
        outs = [out] if isinstance(out, ShapedArray) else list(out)
        values = self._names(outs)
        head = ""
        if values:
            label = values[0].name.partition("#")[0]
            head = f"{label} = " if len(values) == 1 else f"{label}:{len(values)} = "
        inside = ", ".join(f"{k} = {attribute(v)}" for k, v in attributes.items())
        blocks = f" ({', '.join(regions)})" if regions else ""
        types = f"({', '.join(tensor_type(v.aval) for v in operands)})"
        results = ", ".join(tensor_type(a) for a in outs)
        self.lines.append(
            f'{head}"{op}"({", ".join(v.name for v in operands)}){blocks}'
            f"{' {' + inside + '}' if inside else ''} : {types} -> "
            f"{results if len(outs) == 1 else f'({results})'}"
        )
        return values[0] if len(values) == 1 else values

    def emit_all(
        self,
        op: str,
        operands: Sequence[Value],
        out: Sequence[ShapedArray],
        regions: Sequence[str] = (),
        **attributes: Any,
    ) -> list[Value]:
        """As `emit`, always with a list of results."""
        return _listed(self.emit(op, operands, out, regions, **attributes))

    def _names(self, avals: Sequence[ShapedArray]) -> list[Value]:
        if not avals:
            return []
        label = f"%{self._next}"
        self._next += 1
        if len(avals) == 1:
            return [Value(label, avals[0])]
        return [Value(f"{label}#{i}", a) for i, a in enumerate(avals)]

    def region(self, avals: Sequence[ShapedArray], body: Callable[..., Sequence[Value]]) -> str:
        """A region with one block of these arguments, which returns what `body` gives."""
        outer, self.lines = self.lines, []
        saved = self.out_avals
        args = [self._names([a])[0] for a in avals]
        returned = list(body(*args))
        self.emit("stablehlo.return", returned, ())
        lines, self.lines, self.out_avals = self.lines, outer, saved
        head = f"^bb0({', '.join(map(repr, args))}):\n" if args else ""
        inner = "\n".join(_indent(line) for line in lines)
        return f"{{\n{head}{inner}\n}}"

    def aval(self, x: Value) -> ShapedArray:
        """The abstract value of `x`."""
        return x.aval

    def i32(self, n: int) -> str:
        """A 32-bit integer attribute."""
        return f"{n} : i32"

    # Values

    def constant(self, array: Any, aval: ShapedArray | None = None) -> Value:
        """An array, written out."""
        array = np.asarray(array)
        aval = aval or ShapedArray(array.shape, array.dtype)
        array = array.astype(dtypes.physical_dtype(aval.dtype))
        text = elements(array) if array.size else ""
        return self.emit(
            "stablehlo.constant", [], aval, value=f"dense<{text}> : {tensor_type(aval)}"
        )

    def full(self, aval: ShapedArray, value: Any) -> Value:
        """The number `value`, everywhere."""
        scalar = np.asarray(value).astype(dtypes.physical_dtype(aval.dtype))
        text = f"dense<{element(scalar)}> : {tensor_type(aval)}"
        return self.emit("stablehlo.constant", [], aval, value=text)

    def broadcast_to(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` broadcast to `shape` by NumPy's rule."""
        shape = tuple(shape)
        if x.aval.shape == shape:
            return x
        dims = tuple(range(len(shape) - x.aval.ndim, len(shape)))
        out = ShapedArray(shape, x.aval.dtype)
        return self.emit("stablehlo.broadcast_in_dim", [x], out, broadcast_dimensions=dims)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """`x` in another shape."""
        if x.aval.shape == tuple(shape):
            return x
        return self.emit("stablehlo.reshape", [x], ShapedArray(tuple(shape), x.aval.dtype))

    def convert(self, x: Value, dtype: Any) -> Value:
        """`x` in another dtype; of a complex number that becomes real, the real part."""
        if x.aval.dtype == dtype:
            return x
        new = dtypes.kind_of(dtype)
        if dtypes.kind_of(x.aval.dtype) == "c" and new != "c":
            if new == "b":
                return self.compare("NE", x, self.full(x.aval, 0))
            x = self.emit("stablehlo.real", [x], _real(x.aval))
        if x.aval.dtype == dtype:
            return x
        if new == "b":
            return self.compare("NE", x, self.full(x.aval, 0))
        if new == "c" and dtypes.kind_of(x.aval.dtype) != "c":
            part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
            x = self.convert(x, part)
            zero = self.full(x.aval, 0)
            return self.emit("stablehlo.complex", [x, zero], ShapedArray(x.aval.shape, dtype))
        return self.emit("stablehlo.convert", [x], ShapedArray(x.aval.shape, dtype))

    def compare(self, direction: str, x: Value, y: Value, kind: str = "") -> Value:
        """EQ, NE, LT, LE, GT or GE of two arrays; `kind`: TOTALORDER of floats."""
        more = {"compare_type": f"#stablehlo<comparison_type {kind}>"} if kind else {}
        return self.emit(
            "stablehlo.compare",
            [x, y],
            ShapedArray(x.aval.shape, BOOL),
            comparison_direction=f"#stablehlo<comparison_direction {direction}>",
            **more,
        )

    def select(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        """`on_true` where `condition` holds, else `on_false`."""
        return self.emit("stablehlo.select", [condition, on_true, on_false], on_true.aval)

    # Structure

    def reduce(self, op: str, x: Value, init: Any, axes: Sequence[int]) -> Value:
        """The reduction of `x` over `axes` by the StableHLO op `op`, from the number `init`."""
        scalar = ShapedArray((), x.aval.dtype)
        shape = tuple(n for d, n in enumerate(x.aval.shape) if d not in axes)

        def combine(a: Value, b: Value) -> list[Value]:
            return [self.emit(op, [a, b], scalar)]

        body = self.region([scalar, scalar], combine)
        return self.emit(
            "stablehlo.reduce",
            [x, self.full(scalar, init)],
            ShapedArray(shape, x.aval.dtype),
            [body],
            dimensions=tuple(axes),
        )

    def dot_numbers(
        self,
        lhs_batch: Sequence[int],
        rhs_batch: Sequence[int],
        lhs_contract: Sequence[int],
        rhs_contract: Sequence[int],
    ) -> str:
        """The attribute that says which axes dot_general pairs."""
        return (
            f"#stablehlo.dot<lhs_batching_dimensions = {list(lhs_batch)}, "
            f"rhs_batching_dimensions = {list(rhs_batch)}, "
            f"lhs_contracting_dimensions = {list(lhs_contract)}, "
            f"rhs_contracting_dimensions = {list(rhs_contract)}>"
        )

    def precision(self, precision: Any) -> str:
        """The attribute for the precision of a product: None, a name, or a pair of them."""
        both = (precision, precision)
        pair = cast("tuple[Any, Any]", precision) if isinstance(precision, tuple) else both
        words = [_PRECISIONS.get(str(getattr(p, "name", p)).lower(), "HIGHEST") for p in pair]
        return f"[{', '.join(f'#stablehlo<precision {w}>' for w in words)}]"

    def sort(
        self, operands: Sequence[Value], dimension: int, is_stable: bool, num_keys: int
    ) -> list[Value]:
        """The operands, sorted together by the first `num_keys`."""
        scalars = [ShapedArray((), x.aval.dtype) for x in operands for _ in (0, 1)]

        def before(*pairs: Value) -> list[Value]:
            keys = [k for i in range(num_keys) for k in self._sort_keys(*pairs[2 * i : 2 * i + 2])]
            *first, (x, y) = keys
            result = self._less(x, y)
            for x, y in reversed(first):
                same = self.compare("EQ", x, y, _order(x.aval.dtype))
                result = self.select(same, result, self._less(x, y))
            return [result]

        return self.emit_all(
            "stablehlo.sort",
            operands,
            [x.aval for x in operands],
            [self.region(scalars, before)],
            dimension=dimension,
            is_stable=is_stable,
        )

    def _less(self, x: Value, y: Value) -> Value:
        return self.compare("LT", x, y, _order(x.aval.dtype))

    def _sort_keys(self, x: Value, y: Value) -> list[tuple[Value, Value]]:
        """Pairs to compare in turn: the parts of complex numbers, zeros and NaNs made one."""
        kind = dtypes.kind_of(x.aval.dtype)
        if kind == "c":
            parts = [
                [self.emit(f"stablehlo.{part}", [v], _real(v.aval)) for v in (x, y)]
                for part in ("real", "imag")
            ]
            return [pair for a, b in parts for pair in self._sort_keys(a, b)]
        return [(self._canonical(x), self._canonical(y)) if kind == "f" else (x, y)]

    def _canonical(self, x: Value) -> Value:
        zero, nan = self.full(x.aval, 0), self.full(x.aval, np.nan)
        x = self.select(self.compare("EQ", x, zero), zero, x)
        return self.select(self.compare("NE", x, x), nan, x)

    # Programs

    def equation(self, eqn: Equation, operands: Sequence[Value]) -> list[Value]:
        """Write one equation by its operation's rule."""
        saved, self.out_avals = self.out_avals, [v.aval for v in eqn.outvars]
        try:
            if has_rule(eqn.op, "stablehlo"):
                found = eqn.op.stablehlo(self, *operands)
            elif has_rule(eqn.op, "decompose"):
                found = self.lower(eqn.op.decompose, operands)
            else:
                raise NotImplementedError(
                    f"{eqn.op.name} has no stablehlo rule: it cannot run on XLA (at {eqn.source})"
                )
        finally:
            self.out_avals = saved
        return _listed(found)

    def jaxpr(self, jaxpr: Jaxpr, consts: Sequence[Value], args: Sequence[Value]) -> list[Value]:
        """Write the equations of `jaxpr` here; its results."""
        env: dict[Var, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(v: Any) -> Value:
            return self.constant(v.val, v.aval) if isinstance(v, Literal) else env[v]

        for eqn in jaxpr.eqns:
            outs = self.equation(eqn, [read(v) for v in eqn.invars])
            for v, value in zip(eqn.outvars, outs, strict=True):
                if isinstance(v, Var):
                    env[v] = value
        return [read(v) for v in jaxpr.outvars]

    def closed(self, program: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        """As `jaxpr`; constants are written out."""
        consts = [self.constant(np.asarray(c)) for c in program.consts]
        return self.jaxpr(program.jaxpr, consts, args)

    def lower(self, fun: Callable[..., Sequence[Any]], operands: Sequence[Value]) -> list[Value]:
        """Write the program of `fun`, a Python function in terms of operations."""
        if self._tools is None:
            raise TypeError("this writer has no tools to stage a function with")
        return self.closed(self._tools.trace(fun, [x.aval for x in operands]), operands)

    def call(self, program: ClosedJaxpr, operands: Sequence[Value], label: str) -> list[Value]:
        """Call `program` (without constants) as a function of its own."""
        key = id(program.jaxpr)
        if key not in self._functions:
            symbol = f"{_symbol(label)}_{len(self._functions)}"
            self._functions[key] = (symbol, program.jaxpr, None)
            text = _function(symbol, program.jaxpr, "private", self._functions, self._tools,
                             self._expand)  # fmt: skip
            self._functions[key] = (symbol, program.jaxpr, text)
        callee = f"@{self._functions[key][0]}"
        return self.emit_all("func.call", operands, program.out_avals, callee=callee)

    def while_loop(self, op: Any, operands: Sequence[Value]) -> list[Value]:
        """stablehlo.while of a `While` operation: constants are seen from inside the regions."""
        n, m = op.cond_nconsts, op.body_nconsts
        cond_consts, body_consts = operands[:n], operands[n : n + m]
        carry = operands[n + m :]
        avals = [x.aval for x in carry]
        cond = self.region(avals, lambda *xs: self.closed(op.cond_jaxpr, [*cond_consts, *xs]))
        body = self.region(avals, lambda *xs: self.closed(op.body_jaxpr, [*body_consts, *xs]))
        return self.emit_all("stablehlo.while", carry, avals, [cond, body])

    def case(
        self, index: Value, branches: Sequence[ClosedJaxpr], operands: Sequence[Value]
    ) -> list[Value]:
        """stablehlo.case: the branch of number `index` (int32; out of range: the last)."""

        def block(branch: ClosedJaxpr) -> str:
            return self.region((), lambda: self.closed(branch, operands))

        blocks = [block(branch) for branch in branches]
        return self.emit_all("stablehlo.case", [index], branches[0].out_avals, blocks)

    # Scalar expressions

    def scalar(self, fun: Callable[..., Any], operands: Sequence[Value]) -> Any:
        """`fun(dtype, *args)`, a scalar expression (or a tuple), applied to whole arrays."""
        args = [
            name(f"x{k}", dtypes.physical_dtype(x.aval.dtype).name) for k, x in enumerate(operands)
        ]
        out = fun(dtypes.physical_dtype(self.out_avals[0].dtype).name, *args)
        roots = cast("tuple[Any, ...]", out) if isinstance(out, tuple) else (out,)
        values: dict[Expr, Value] = dict(zip(args, operands, strict=True))
        shape = self.out_avals[0].shape
        for node in walk(*roots):
            if node not in values:
                values[node] = self._node(node, values, shape)
        found = [values[root] for root in roots]
        return found if isinstance(out, tuple) else found[0]

    def _node(self, node: Expr, values: dict[Expr, Value], shape: tuple[int, ...]) -> Value:
        args = [values[a] for a in node.args]
        aval = ShapedArray(shape, dtypes.as_dtype(node.dtype))
        if node.op == "const":
            return self.full(aval, in_range(node.extra, aval.dtype))
        if node.op in COMPARISONS:
            return self.compare(node.op.upper(), args[0], args[1])
        if node.op == "cast":
            return self.convert(args[0], aval.dtype)
        if node.op in ELEMENTWISE:
            return self.emit(ELEMENTWISE[node.op], args, aval)
        if node.op in COMPOSED:
            return COMPOSED[node.op](self, aval, *args)
        if self._expand is None:
            raise NotImplementedError(f"the scalar operation {node.op} has no StableHLO form")
        return self._expanded(node, args, shape)

    def _expanded(self, node: Expr, args: Sequence[Value], shape: tuple[int, ...]) -> Value:
        simpler = self._expand(node)
        known = dict(zip(node.args, args, strict=True))
        for part in walk(simpler):
            if part not in known:
                known[part] = self._node(part, known, shape)
        return known[simpler]


_PRECISIONS = {
    "none": "DEFAULT", "default": "DEFAULT", "fastest": "DEFAULT", "bfloat16": "DEFAULT",
    "high": "HIGH", "tensorfloat32": "HIGH",
}  # fmt: skip


def _listed(found: Any) -> list[Value]:
    return list(cast("Sequence[Value]", found)) if isinstance(found, (list, tuple)) else [found]


def _order(dtype: Any) -> str:
    return "TOTALORDER" if dtypes.kind_of(dtype) == "f" else ""


def _real(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape, np.float32 if aval.dtype == np.complex64 else np.float64)


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def _symbol(label: str) -> str:
    word = "".join(c if c.isalnum() or c == "_" else "_" for c in label)
    return word if word and not word[0].isdigit() else f"f{word}"


def _function(
    symbol: str, jaxpr: Jaxpr, visibility: str, functions: Any, tools: Any, expand: Any
) -> str:
    writer = Writer(functions, tools, expand)
    variables = [*jaxpr.constvars, *jaxpr.invars]
    args = [Value(f"%arg{k}", v.aval) for k, v in enumerate(variables)]
    n = len(jaxpr.constvars)
    results = writer.jaxpr(jaxpr, args[:n], args[n:])
    writer.emit("func.return", results, ())
    types = ", ".join(tensor_type(v.aval) for v in jaxpr.outvars)
    head = f"func.func {visibility} @{symbol}({', '.join(map(repr, args))}) -> ({types})"
    body = "\n".join(_indent(line) for line in writer.lines)
    return f"{head} {{\n{body}\n}}"


def module_text(
    program: ClosedJaxpr | Jaxpr,
    label: str = "main",
    tools: Any = None,
    expand: Callable[[Expr], Expr] | None = None,
) -> str:
    """The module whose function `main` is `program`; its constants are leading arguments.

    tools: what stages a Python function (`tools.trace(fun, avals)`), for rules that are written in
    terms of operations.  expand: a scalar expression that StableHLO lacks, in simpler ones.
    Raises NotImplementedError for an operation that has no rule.

    >>> from covector import ops
    >>> from covector.ir.jaxpr import Equation
    >>> x, y = Var(ShapedArray((3,), "float32")), Var(ShapedArray((3,), "float32"))
    >>> print(module_text(Jaxpr([], [x], [y], [Equation(ops.pointwise.neg, [x], [y])])))
    module @main {
      func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {
        %0 = "stablehlo.negate"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
        "func.return"(%0) : (tensor<3xf32>) -> ()
      }
    }
    """
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    functions: dict[Any, Any] = {}
    main = _function("main", jaxpr, "public", functions, tools, expand)
    texts = [main, *(text for _, _, text in functions.values())]
    inside = "\n".join(_indent(text) for text in texts)
    return f"module @{_symbol(label)} {{\n{inside}\n}}"
