"""The op protocol: what a primitive is, and every rule it may state, in one fixed order.

A primitive is a final subclass of `Op`; an *instance* carries its parameters as typed fields, so
that equality, hashing and printing follow.  `op(x, y)` binds: the current trace interprets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from covector._base.context import context
from covector._base.named_tuple import NamedTuple
from covector.ir.avals import ShapedArray

#: Why a rule cannot exist: a closed list; `debug.coverage` prints how often each is given.
REASONS = {
    "integer": "results are integers, booleans or keys: no derivative exists",
    "not linear": "not linear in any argument: there is nothing to transpose",
    "derived": "follows from the decomposition into simpler ops",
    "call": "holds programs: what transforms or runs it handles these itself",
    "host": "it runs Python on the host, which compiled programs call; XLA is not told how",
    "collective": "its meaning spans the examples or devices of a named axis, whose owner gives it",
}


class Absent:
    """Stands for a rule that cannot exist, with the reason (a key of `REASONS`)."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        if reason not in REASONS:
            raise ValueError(f"unknown reason {reason!r}; the list is {sorted(REASONS)}")
        self.reason = reason


class Linear:
    """In `transpose`: stands for an argument the op is linear in; all that is known is `aval`."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


class Sample(NamedTuple):
    """One case for the laws: an instance, its arguments, and how they may be varied.

    args: ShapedArrays (filled with random numbers from `domain`) or concrete NumPy arrays
    (indices, keys).  `smooth`: whether derivatives may be compared with finite differences.
    `scale` multiplies the tolerances of floating-point comparisons.  `prepare(*arrays)`: the
    arguments made fit of the random ones, such as matrices that are well conditioned.
    `view(*results)`: what is compared, where results are arbitrary in part (signs of vectors).
    """

    op: Op
    args: tuple[Any, ...]
    domain: tuple[float, float] = (-2.0, 2.0)
    smooth: bool = True
    scale: float = 1.0
    prepare: Callable[..., Sequence[Any]] | None = None
    view: Callable[..., Sequence[Any]] | None = None


class Push(NamedTuple):
    """What a `push` rule returns: the output starts as argument `base`, then for every index `u`
    of `extents`, in order, `body(u)` gives (output index, value, kind, where).

    kind: 'set' or a kind of `compiler.loops.program.COMBINE`; where: a 'bool' Expr or None.
    """

    base: int
    extents: Sequence[Any]
    body: Callable[[Sequence[Any]], tuple[Sequence[Any], Any, str, Any]]


class Cumulate(NamedTuple):
    """What a `cumulate` rule returns: a serial pass along `axis` of the output's domain.

    `start`: initial carries (Exprs); `step(carries, index)` -> (new carries, output values).
    """

    axis: int
    reverse: bool
    start: Sequence[Any]
    step: Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]


class Library(NamedTuple):
    """A native routine over whole dense buffers, by name, with constant attributes."""

    name: str
    attributes: tuple[Any, ...] = ()


def _no_result(self: Op, *avals: ShapedArray) -> Any:
    raise NotImplementedError(f"{self.name} has no result rule")


class _Bind:
    """`op.bind(*args)`; of a class, `Add.bind(*args, **params)`, as primitives have it in JAX."""

    def __get__(self, op: Op | None, cls: type[Op]) -> Callable[..., Any]:
        if op is not None:
            return op.__call__

        fields = cls._fields  # pyright: ignore[reportPrivateUsage]

        def bind(*args: Any, **params: Any) -> Any:
            # JAX's parameters that have no part in ours, such as `sharding`, are None then.
            known = {k: v for k, v in params.items() if k in fields or v is not None}
            return cls(**known)(*args)

        return bind


class Registry(dict[str, "type[Op]"]):
    """Primitives by name.  Their modules load at first use; who asks for a name that is not there,
    or for all names, has the rest loaded."""

    #: Load the rest; filled by the wiring, emptied when done.
    loaders: ClassVar[list[Callable[[], None]]] = []
    _lock: ClassVar = threading.RLock()

    def complete(self) -> Registry:
        """Itself, with every primitive of the package."""
        with self._lock:
            for load in self.loaders:
                load()
            self.loaders.clear()
        return self

    def __missing__(self, name: str) -> type[Op]:
        if name not in self:  # which loads the rest
            raise KeyError(name)
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        return super().get(name) if name in self else default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (bool(self.loaders) and name in self.complete())

    def __iter__(self) -> Iterator[str]:
        self.complete()
        return super().__iter__()


class Op:
    """A primitive.  Subclasses are final, state `name`, their fields and their rules.

    Fields are the annotated names of the class body (`ClassVar` excepted), in order; a value in
    the body is the default.  Instances are immutable and compare by their fields.
    """

    name: ClassVar[str] = ""
    #: Whether binding gives a list (`multiple_results`) or one value.
    multiple_results: ClassVar[bool] = False
    #: Side effects: an equation that has some is neither removed, nor moved, nor merged.
    effects: ClassVar[frozenset[str]] = frozenset()
    #: How many arguments, or None if it varies.
    arity: ClassVar[int | None] = None
    _fields: ClassVar[tuple[str, ...]] = ()
    #: All primitives by name.
    registry: ClassVar[Registry] = Registry()

    def __init_subclass__(cls, registered: bool = True, **kwargs: Any) -> None:
        """`registered=False`: a helper that no program holds, so that no law speaks of it."""
        super().__init_subclass__(**kwargs)
        own = cls.__annotations__
        added = tuple(k for k, t in own.items() if not str(t).startswith("ClassVar"))
        if added:
            cls._fields = tuple(f for f in cls._fields if f not in added) + added
        if registered and "name" in cls.__dict__ and cls.name:
            Op.registry.setdefault(cls.name, cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self._fields
        if kwargs or len(args) != len(fields):
            args = self._arrange(args, kwargs)
        self.__dict__.update(zip(fields, args, strict=True))

    def _arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        cls = type(self)
        given = dict(zip(self._fields, args, strict=False))
        unknown = [k for k in kwargs if k not in self._fields or k in given]
        given.update(kwargs)
        missing = [f for f in self._fields if f not in given and not hasattr(cls, f)]
        if unknown or missing or len(args) > len(self._fields):
            raise TypeError(
                f"{cls.__name__} takes the parameters ({', '.join(self._fields)}); "
                f"got {args} {kwargs}"
            )
        return tuple(given[f] if f in given else getattr(cls, f) for f in self._fields)

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {key!r}")

    @property
    def params(self) -> dict[str, Any]:
        """Its parameters by name, in order of declaration."""
        fields = self._fields
        if not fields:
            return {}
        values = self.__dict__
        return {f: values[f] for f in fields}

    def with_params(self, **changes: Any) -> Op:
        """The same primitive with some parameters changed."""
        return type(self)(**{**self.params, **changes})

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other)
            and all(getattr(self, f) == getattr(other, f) for f in self._fields)
        )

    def __hash__(self) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            found = hash((type(self), *(self.__dict__[f] for f in self._fields)))
            self.__dict__["_hash"] = found
        return found

    def __reduce__(self) -> Any:
        # Not `__dict__`: it also holds what others remember about this instance.
        return type(self), tuple(self.__dict__[f] for f in self._fields)

    def __repr__(self) -> str:
        inside = ", ".join(f"{f}={self.__dict__[f]!r}" for f in self._fields)
        return f"{self.name}[{inside}]" if inside else self.name

    def __call__(self, *args: Any) -> Any:
        """Bind to `args` (arrays, tracers, NumPy arrays or Python scalars)."""
        return context.trace.process(self, args)

    bind: ClassVar[Any] = _Bind()

    # The rules.  Each may be a method or `Absent(reason)`; a missing one fails the completeness
    # test.  In `jvp`, `transpose` a tangent or cotangent that is known to be zero is None.
    # Their type is Any: primitives take as many arguments as they have, and families add fields.

    #: `result(*avals)`: output aval, or a tuple of them if `multiple_results`; refuses wrong ones.
    result: Any = _no_result
    #: `numpy(*arrays)`: the meaning, in NumPy.
    numpy: Any = None
    #: `jvp(tools, primals, tangents)` -> (primal out(s), tangent out(s)).
    jvp: Any = None
    #: `transpose(tools, ct(s), *args)` -> a cotangent (or None) for each argument; those the op
    #: is linear in arrive as `Linear`.
    transpose: Any = None
    #: `batch(tools, size, args, dims)` -> (out(s), out dim(s)); a dim is an int or None.
    batch: Any = None
    #: `kernel(ask, index)` -> Expr(s): the native meaning of the element at `index` (ir.kernel).
    kernel: Any = None
    #: Instead of `kernel`, for ops that write at computed places: `push(ask)` -> Push.
    push: Any = None
    #: Instead of `kernel`, for running reductions: `cumulate(ask)` -> Cumulate.
    cumulate: Any = None
    #: Instead of, or beside, `kernel`: `library(*avals)` -> Library or None.
    library: Any = None
    #: Beside `library`, for linear algebra: `per_matrix(*args)` -> results, the meaning for one
    #: small matrix in Exprs: a matrix is a tuple of rows, a vector a tuple.
    per_matrix: Any = None
    #: Instead of `kernel`: `decompose(*args)`, the op in terms of simpler ops.
    decompose: Any = None
    #: `stablehlo(writer, *operands)`: the text for XLA.
    stablehlo: Any = None
    #: `samples()` -> iterable of Sample.
    samples: Any = None


NATIVE_RULES = ("kernel", "push", "cumulate", "library", "decompose")


def has_rule(op: Op | type[Op], rule: str) -> bool:
    """Whether `op` states `rule` (an `Absent` is no rule)."""
    found = getattr(op, rule)
    return found is not None and not isinstance(found, Absent)


def primitives() -> dict[str, type[Op]]:
    """The primitives that the package itself declares, by name."""
    own = {n: c for n, c in Op.registry.complete().items() if c.__module__.startswith("covector.")}
    return dict(sorted(own.items()))
