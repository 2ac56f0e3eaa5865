"""Ahead of time: a jitted function traced, lowered, compiled, each stage to look at."""

from __future__ import annotations

from typing import Any, Protocol, final, runtime_checkable

from covector import compiler, ir, transforms, tree
from covector._base.named_tuple import NamedTuple
from covector.api.arguments import avals_of, check_values
from covector.api.arrays import as_array
from covector.api.cost import cost_of_jaxpr, cost_of_program
from covector.api.inspect import ShapeDtypeStruct
from covector.api.programs import Found
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr
from covector.ir.scalar import Expr
from covector.runtime import debug_values, deferred, device
from covector.runtime.array import default_sharding, like, memory
from covector.runtime.donation import Donating
from covector.runtime.watch import VALUES
from covector.trace.tracer import Tracer

#: What `as_text` shows, in the order of the way of a program.
STAGES = ("jaxpr", "stablehlo", "simplified", "kernels", "llvm", "assembly")


@final
class ArgInfo:
    """The type of a flat argument, and whether it is given up."""

    __slots__ = ("aval", "donated")

    def __init__(self, aval: ShapedArray, donated: bool) -> None:
        self.aval, self.donated = aval, donated

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        return self.aval.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArgInfo) and (
            (self.aval, self.donated) == (other.aval, other.donated)
        )

    def __hash__(self) -> int:
        return hash((self.aval, self.donated))

    def __repr__(self) -> str:
        return f"ArgInfo({self.aval.str_short()}, donated={self.donated})"


@runtime_checkable
class Wrapped(Protocol):
    """What `jit` returns: a function that can also be traced and lowered."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled function."""
        ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traced for arguments of these types."""
        ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traced and lowered."""
        ...


#: What `Lowered.compile` takes as options: a dictionary of names and values.
CompilerOptions = dict[str, Any]


class CompiledMemoryStats(NamedTuple):
    """Bytes that a compiled program needs, by the names of JAX.

    alias: results that take over donated arguments.  temp: the arena of its memory plan.
    peak_memory: arguments, results and temporaries together, those in one place once.
    """

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    peak_memory_in_bytes: int = 0


class _Stage:
    """What every stage knows: the program, and the structure of arguments and result."""

    def __init__(self, found: Found, name: str, donate_argnums: tuple[int, ...] = ()) -> None:
        self._found, self._name = found, name
        #: The positions of donated arguments.
        self.donate_argnums = donate_argnums

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; what the function captured are its first arguments."""
        return self._found.program.op.jaxpr

    @property
    def captured(self) -> list[Any]:
        """The arrays that the function captured: the program's first arguments."""
        return list(self._found.captured)

    @property
    def fun_name(self) -> str:
        """The function's name."""
        return self._name

    @property
    def in_tree(self) -> Any:
        """The structure of (positional arguments, keyword arguments)."""
        return self._found.program.in_tree

    @property
    def out_tree(self) -> Any:
        """The structure of the result."""
        return self._found.program.out_tree

    def _flat_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(self.jaxpr.in_avals[len(self._found.captured) :])

    @property
    def in_avals(self) -> Any:
        """The types of the arguments: (positional, keyword)."""
        return tree.unflatten(self.in_tree, self._flat_avals())

    @property
    def out_avals(self) -> Any:
        """The types of the flat results."""
        return tuple(self.jaxpr.out_avals)

    @property
    def args_info(self) -> Any:
        """(positional, keyword) arguments, with an ArgInfo for each flat one."""
        program = self._found.program
        given_up = {*program.donated, *program.unusable}
        infos = [ArgInfo(a, n in given_up) for n, a in enumerate(self._flat_avals())]
        return tree.unflatten(self.in_tree, infos)

    @property
    def out_info(self) -> Any:
        """The result's structure, with a ShapeDtypeStruct for each array."""
        structs = [
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in self.jaxpr.out_avals
        ]
        return tree.unflatten(self.out_tree, structs)


class Traced(_Stage):
    """A traced function: `jit(f).trace(*args)`.

    >>> import covector as cv
    >>> traced = cv.jit(lambda x: {"y": x + 1}).trace(cv.ShapeDtypeStruct((3,), "float32"))
    >>> traced.out_info
    {'y': ShapeDtypeStruct(shape=(3,), dtype=float32)}
    """

    def lower(self, *, lowering_platforms: Any = None) -> Lowered:
        """Ready to be compiled."""
        del lowering_platforms
        self._found.program.warn_of_unusable()
        return Lowered(self._found, self._name, self.donate_argnums)

    def __repr__(self) -> str:
        return f"Traced({self._name}, {self.in_avals})"


class Lowered(_Stage):
    """A traced function, ready to be compiled: `jit(f).lower(*args)`."""

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program at a stage: one of 'jaxpr', 'stablehlo' (the default), 'simplified',
        'kernels', 'llvm', 'assembly'.

        >>> import covector as cv
        >>> print(cv.jit(cv.lax.sin).lower(1.0).as_text("jaxpr"))
        { lambda ; a:f32[]*. let
            b:f32[]* = sin a
          in (b,) }
        """
        del debug_info
        stage = dialect or "stablehlo"
        if stage not in STAGES:
            raise ValueError(f"as_text: the stages are {', '.join(STAGES)}; got {dialect!r}")
        if stage == "jaxpr":
            return str(self.jaxpr)
        if stage == "stablehlo":
            tools = transforms.tools.tools
            return ir.stablehlo.module_text(self.jaxpr, f"jit_{self._name}", tools, _in_stablehlo)
        return self._found.program.executable().text(stage)

    def compiler_ir(self, dialect: str | None = None) -> str:
        """The text that a compiler is given; see `as_text`."""
        return self.as_text(dialect)

    def cost_analysis(self) -> dict[str, float]:
        """'flops', 'transcendentals' and 'bytes accessed', of each operation by itself.

        Bodies of loops count as often as they run where that is known, else once.
        """
        return cost_of_jaxpr(self.jaxpr.jaxpr)

    def compile(
        self, compiler_options: CompilerOptions | None = None, *, device_assignment: Any = None
    ) -> Compiled:
        """Machine code for these types.  Options of XLA are accepted, and have no effect."""
        del compiler_options, device_assignment
        self._found.program.executable()
        return Compiled(self._found, self._name, self.donate_argnums)

    def __repr__(self) -> str:
        return f"Lowered({self._name}, {self.in_avals})"


def _in_stablehlo(node: Expr) -> Expr:
    """A scalar operation that StableHLO lacks, by the compiler's own expansion."""
    return compiler.math.expand_all([node], frozenset(ir.hlo_scalar.ELEMENTWISE))[0]


class Compiled(_Stage):
    """A compiled function: takes arguments of the types it was lowered for, and no others.

    >>> import covector as cv
    >>> compiled = cv.jit(lambda x: x * 2).lower(cv.ShapeDtypeStruct((2,), "float32")).compile()
    >>> compiled(cv.numpy.ones(2)).tolist()
    [2.0, 2.0]
    >>> compiled.memory_analysis().argument_size_in_bytes
    8
    """

    def as_text(self, stage: str | None = None) -> str:
        """The program at a stage, see `Lowered.as_text`; by default its assembly."""
        return Lowered(self._found, self._name).as_text(stage or "assembly")

    def runtime_executable(self) -> Any:
        """What the runtime runs."""
        return self._found.program.executable()

    def cost_analysis(self) -> dict[str, float]:
        """As `Lowered.cost_analysis`; 'bytes accessed' are those of the fused kernels."""
        cost = cost_of_jaxpr(self.jaxpr.jaxpr)
        try:
            hidden = len(self._found.captured)
            donated = [hidden + n for n in self._found.program.donated]
            program, _ = compiler.pipeline.compile_program(self.jaxpr, donated)
        except NotImplementedError:
            return cost
        return {**cost, "bytes accessed": cost_of_program(program)}

    def memory_analysis(self) -> CompiledMemoryStats:
        """Bytes that it needs, from the plan of its memory."""
        executable = self.runtime_executable()
        memory = getattr(executable, "memory", None)
        alias = 0
        if isinstance(executable, Donating):
            alias = sum(executable.out_avals[n].nbytes for n in executable.taken)
        given = sum(a.nbytes for a in self._flat_avals())
        made = sum(a.nbytes for a in self.jaxpr.out_avals)
        temporary = 0 if memory is None else memory.temporary
        return CompiledMemoryStats(
            0 if memory is None else memory.code,
            given,
            made,
            alias,
            temporary,
            peak_memory_in_bytes=given + made - alias + temporary,
        )

    @property
    def input_shardings(self) -> Any:
        """Where each argument must be: (positional, keyword)."""
        return tree.unflatten(self.in_tree, [_here()] * len(self._flat_avals()))

    @property
    def output_shardings(self) -> Any:
        """Where each result will be."""
        return tree.unflatten(self.out_tree, [_here()] * len(self.jaxpr.out_avals))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run it.  Raises TypeError if structure or types are not those it was compiled for."""
        program = self._found.program
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != program.in_tree:
            raise TypeError(
                f"compiled {self._name} takes arguments of the structure "
                f"{program.in_tree}; got {in_tree}"
            )
        check_values(leaves, (args, kwargs), "an argument")
        if any(isinstance(x, Tracer) for x in leaves):
            raise TypeError(
                f"compiled {self._name} runs on arrays; it cannot be transformed or traced. "
                "Transform the function, then compile that"
            )
        given = zip(avals_of(leaves), self._flat_avals(), program.labels, strict=True)
        for got, wanted, label in given:
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                raise TypeError(
                    f"compiled {self._name}: argument {label} must be of type "
                    f"{wanted.str_short()}; got {got.str_short()}"
                )
        arrays = [as_array(x) for x in leaves]
        captured = self._found.captured
        watched = VALUES.in_force()
        if program.donated and not watched:
            outs = program.run_donating(captured, arrays, f"compiled {self._name}")
        else:
            typed = zip([*captured, *arrays], self.jaxpr.in_avals, strict=True)
            inputs = [_of_type(x, a) for x, a in typed]
            if watched:  # it keeps what is donated, to run the program again
                outs = debug_values.watched(program.op, inputs)
            else:
                outs = deferred.run(program.executable(), inputs)
        return tree.unflatten(program.out_tree, outs)

    __call__ = call

    def __repr__(self) -> str:
        return f"Compiled({self._name}, {self.in_avals})"


def _of_type(x: Any, aval: ShapedArray) -> Any:
    """`x` with the weak type that the program was compiled for."""
    return x if x.aval is aval else like(x, memory(x), aval)


def _here() -> Any:
    return default_sharding[0](device.default_device())
