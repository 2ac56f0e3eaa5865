"""The loop program: the compiler's second IR, a small typed tree that prints as text.

A `Kernel` is a nest of loops over elements: the planner makes it from a Jaxpr, `verify` checks
it, `interpret` gives its plain meaning, a backend emits it.  Indices are `Affine`, values are
scalar `Expr`.  Extents are constants or run-time values (symbols).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from covector.ir.index import Affine
from covector.ir.scalar import Expr, texts

#: What the accumulators of a fold do; 'argmax'/'argmin' carry a (value, index) pair, where the
#: least index wins ties and a NaN beats every number; the order of combination is free, within
#: what the emitter documents (lanes, then a tree).
COMBINE = ("sum", "prod", "max", "min", "and", "or", "xor", "argmax", "argmin")


#: A buffer, and the index of an element of it.
Place = tuple[str, tuple[Affine, ...]]


class Buffer:
    """Memory a kernel reads or writes: dense, C order, unless `strides` (in elements) are given.

    home: 'in', 'out' (write only), 'inout' (updated in place), 'scratch' (the kernel's own;
    its shape is constant).
    """

    __slots__ = ("dtype", "home", "name", "shape", "strides")

    def __init__(
        self,
        name: str,
        shape: tuple[Affine, ...],
        dtype: str,
        home: str,
        strides: tuple[Affine, ...] | None = None,
    ) -> None:
        self.name, self.shape, self.dtype, self.home = name, shape, dtype, home
        self.strides = strides


class Statement:
    """One of the final classes below."""

    __slots__ = ()

    def lines(self, pad: str) -> list[str]:
        """Its text, one line a statement, indented by `pad`."""
        raise TypeError(f"{type(self).__name__} has no text form")


class Store(Statement):
    """`buffer[index] = value`, where `where` (a 'bool' expression, or None) holds."""

    __slots__ = ("buffer", "index", "value", "where")

    def __init__(
        self, buffer: str, index: tuple[Affine, ...], value: Expr, where: Expr | None = None
    ) -> None:
        self.buffer, self.index, self.value, self.where = buffer, index, value, where

    def lines(self, pad: str) -> list[str]:
        return _shown(
            pad, [self.value, self.where], lambda v, w: f"{_place(self)} = {v}{_condition(w)}"
        )


class Update(Statement):
    """`buffer[index] = combine(buffer[index], value)`, where `where` holds.

    With a data-dependent index two iterations may meet in one element: the loops around it
    are then serial, in order.
    """

    __slots__ = ("buffer", "index", "kind", "value", "where")

    def __init__(
        self,
        buffer: str,
        index: tuple[Affine, ...],
        kind: str,
        value: Expr,
        where: Expr | None = None,
    ) -> None:
        self.buffer, self.index, self.kind = buffer, index, kind
        self.value, self.where = value, where

    def lines(self, pad: str) -> list[str]:
        return _shown(
            pad,
            [self.value, self.where],
            lambda v, w: f"{_place(self)} {self.kind}= {v}{_condition(w)}",
        )


class Let(Statement):
    """Names a value for the statements after it, at this depth."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Expr) -> None:
        self.name, self.value = name, value

    def lines(self, pad: str) -> list[str]:
        return _shown(pad, [self.value], lambda v: f"{self.name} = {v}")


class Accumulator:
    """One result of a fold: `names` (two for argmax/argmin), what is combined, and the start.

    `init` None means the identity of `kind` in `dtypes[0]`.
    """

    __slots__ = ("dtypes", "init", "kind", "names", "values")

    def __init__(
        self,
        names: tuple[str, ...],
        kind: str,
        dtypes: tuple[str, ...],
        values: tuple[Expr, ...],
        init: Expr | None = None,
    ) -> None:
        self.names, self.kind, self.dtypes = names, kind, dtypes
        self.values, self.init = values, init

    def line(self, values: Sequence[str], init: str | None) -> str:
        """Its text, given those of its expressions."""
        start = "" if init is None else f" from {init}"
        return f"{', '.join(self.names)} {self.kind}= {', '.join(values)}{start}"


class Fold(Statement):
    """Reductions over one nest, accumulators in registers; results are names afterwards.

    loops: [(axis, low, high)].  `vector`: the axis that has the lanes (None: the surrounding
    vector loop has them, or no axis).  `stores` fill scratch on the way, before the combine.
    `asks`: places that are fetched into the caches meanwhile; they may lie outside their buffers.
    """

    __slots__ = ("asks", "loops", "results", "stores", "unroll", "vector")

    def __init__(
        self,
        loops: list[tuple[str, Affine, Affine]],
        results: list[Accumulator],
        stores: list[Statement] | None = None,
        vector: str | None = None,
        unroll: int = 1,
        asks: tuple[Place, ...] = (),
    ) -> None:
        self.loops, self.results, self.stores = loops, results, stores or []
        self.vector, self.unroll, self.asks = vector, unroll, asks

    def lines(self, pad: str) -> list[str]:
        def loop(axis: str, low: Affine, high: Affine) -> str:
            times = "" if self.unroll == 1 else f"*{self.unroll}"
            mark = f":vector{times}" if axis == self.vector else ""
            return f"{axis}{mark} in {low} .. {high}"

        head = f"{pad}fold {', '.join(loop(*item) for item in self.loops)}{_asked(self.asks)}"
        inner = pad + "    "
        return [
            head,
            *(line for s in self.stores for line in s.lines(inner)),
            *self._results(inner),
        ]

    def _results(self, pad: str) -> list[str]:
        roots = [e for r in self.results for e in (*r.values, r.init)]

        def joined(*shown: str | None) -> str:
            rest = iter(shown)
            lines = [r.line([str(next(rest)) for _ in r.values], next(rest)) for r in self.results]
            return f"\n{pad}".join(lines)

        return "\n".join(_shown(pad, roots, joined)).split("\n")


class Scan(Statement):
    """A serial loop with carried scalars: `carries` are (name, start); `next` their new values.

    The body's statements see the carries by name; `next` is evaluated after the body.
    After the loop the names hold the last values.  `reverse` runs from high - 1 down to low.
    """

    __slots__ = ("axis", "body", "carries", "high", "low", "next", "reverse")

    def __init__(
        self,
        axis: str,
        low: Affine,
        high: Affine,
        carries: list[tuple[str, Expr]],
        body: list[Statement],
        next: list[Expr],
        reverse: bool = False,
    ) -> None:
        self.axis, self.low, self.high, self.reverse = axis, low, high, reverse
        self.carries, self.body, self.next = carries, body, next

    def lines(self, pad: str) -> list[str]:
        start = ", ".join(f"{n} = {e}" for n, e in self.carries)
        back = " reverse" if self.reverse else ""
        inner = pad + "    "
        return [
            f"{pad}scan {self.axis} in {self.low} .. {self.high}{back} with {start}",
            *(line for s in self.body for line in s.lines(inner)),
            *_shown(inner, self.next, self._following(inner)),
        ]

    def _following(self, pad: str) -> Callable[..., str]:
        return lambda *shown: f"\n{pad}".join(
            f"next {n} = {e}" for (n, _), e in zip(self.carries, shown, strict=True)
        )


class Repeat(Statement):
    """`while condition: carries = next`: scalars that are carried by name, lane by lane.

    carries: (name, start).  The condition and `next` see the carries, and names that the body (only
    further loops) defines.  Lanes whose condition no longer holds keep their values; the loop ends
    when none holds.  After it the names hold the last values.
    """

    __slots__ = ("body", "carries", "condition", "next")

    def __init__(
        self,
        carries: list[tuple[str, Expr]],
        condition: Expr,
        body: list[Statement],
        next: list[Expr],
    ) -> None:
        self.carries, self.condition, self.body, self.next = carries, condition, body, next

    def lines(self, pad: str) -> list[str]:
        start = ", ".join(f"{n} = {e}" for n, e in self.carries)
        inner = pad + "    "
        return [
            f"{pad}repeat while {self.condition} with {start}",
            *(line for s in self.body for line in s.lines(inner)),
            *_shown(inner, self.next, self._following(inner)),
        ]

    def _following(self, pad: str) -> Callable[..., str]:
        return lambda *shown: f"\n{pad}".join(
            f"next {n} = {e}" for (n, _), e in zip(self.carries, shown, strict=True)
        )


class For(Statement):
    """A loop.  mode: 'serial'; 'vector' (its axis has the lanes); 'tile' (with the loop inside
    it, a block of lanes x lanes is transposed in registers); 'parallel' (iterations independent:
    chunks may run on several threads).  `unroll`: so many instances side by side.  `ahead`: what
    vectors inside read is asked for so many iterations before, where that is far off in memory.
    `asks`: as in a fold.
    """

    __slots__ = ("ahead", "asks", "axis", "body", "high", "low", "mode", "unroll")

    def __init__(
        self,
        axis: str,
        low: Affine,
        high: Affine,
        body: list[Statement],
        mode: str = "serial",
        unroll: int = 1,
        ahead: int = 0,
        asks: tuple[Place, ...] = (),
    ) -> None:
        self.axis, self.low, self.high, self.body = axis, low, high, body
        self.mode, self.unroll, self.ahead, self.asks = mode, unroll, ahead, asks

    def lines(self, pad: str) -> list[str]:
        mark = "" if self.mode == "serial" and self.unroll == 1 else f":{self.mode}"
        mark += "" if self.unroll == 1 else f"*{self.unroll}"
        mark += f" ahead {self.ahead}" if self.ahead else ""
        return [
            f"{pad}for {self.axis}{mark} in {self.low} .. {self.high}{_asked(self.asks)}",
            *(line for s in self.body for line in s.lines(pad + "    ")),
        ]


class If(Statement):
    """Runs `body` if `condition` (a 'bool' expression that is the same for all lanes) holds."""

    __slots__ = ("body", "condition", "orelse")

    def __init__(
        self, condition: Expr, body: list[Statement], orelse: list[Statement] | None = None
    ) -> None:
        self.condition, self.body, self.orelse = condition, body, orelse or []

    def lines(self, pad: str) -> list[str]:
        inner = pad + "    "
        out = [f"{pad}if {self.condition}", *(x for s in self.body for x in s.lines(inner))]
        if self.orelse:
            out += [f"{pad}else", *(x for s in self.orelse for x in s.lines(inner))]
        return out


class Kernel:
    """A nest with its buffers (in the order of its arguments) and run-time symbols.

    As machine code: `void kernel(ptr buffers, ptr symbols)`, two arrays: one pointer a buffer
    that is not scratch, one i64 a symbol, both in this order.
    """

    __slots__ = ("body", "buffers", "name", "symbols")

    def __init__(
        self,
        name: str,
        buffers: dict[str, Buffer],
        body: list[Statement],
        symbols: tuple[str, ...] = (),
    ) -> None:
        self.name, self.buffers, self.body, self.symbols = name, buffers, body, symbols

    def __str__(self) -> str:
        def one(b: Buffer) -> str:
            strides = "" if b.strides is None else f" strides[{','.join(map(str, b.strides))}]"
            return f"{b.home} {b.name}:{b.dtype}[{','.join(map(str, b.shape))}]{strides}"

        head = ", ".join([*map(one, self.buffers.values()), *(f"i64 {s}" for s in self.symbols)])
        return "\n".join(
            [f"kernel {self.name}({head})", *(x for s in self.body for x in s.lines("    "))]
        )


def _place(s: Store | Update) -> str:
    return _element(s.buffer, s.index)


def _element(buffer: str, index: tuple[Affine, ...]) -> str:
    return f"{buffer}[{', '.join(map(str, index))}]"


def _asked(asks: tuple[Place, ...]) -> str:
    return f" asks {', '.join(_element(*place) for place in asks)}" if asks else ""


def _condition(where: str | None) -> str:
    return "" if where is None else f" if {where}"


def _shown(pad: str, roots: Sequence[Expr | None], text: Callable[..., str]) -> list[str]:
    """`text` of the texts of `roots`, after a line for every expression that they share."""
    definitions, shown = texts([e for e in roots if e is not None])
    rest = iter(shown)
    line = text(*[None if e is None else next(rest) for e in roots])
    return [*(pad + d for d in definitions), pad + line]
