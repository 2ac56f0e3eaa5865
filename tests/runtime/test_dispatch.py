"""Eager evaluation of operations: tables, fallbacks, refusals; and sequences of programs."""

import copy
import pickle

import numpy as np
import pytest

from covector._base.context import quiet
from covector._base.errors import UnexpectedTracerError
from covector.ir.avals import ShapedArray
from covector.ir.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var
from covector.ir.op import Absent, Op
from covector.runtime import dispatch
from covector.runtime.array import Array, from_numpy
from covector.runtime.dispatch import Reference, evaluate, executable
from covector.runtime.entry import Compiled, Entry, Record
from covector.runtime.native import native
from covector.runtime.patterns import Pattern, as_list
from covector.runtime.sequence import sequence
from covector.trace.stage import trace_to_jaxpr
from tests.runtime.harness import ADD, THREE, code, f32


class Scale(Op):
    """A toy with a NumPy rule alone."""

    name = "test_scale"
    factor: int = 2
    calls = 0

    def result(self, x):
        return x

    def numpy(self, x):
        Scale.calls += 1
        return x * self.factor


class Both(Op):
    """A toy of two results."""

    name = "test_both"
    multiple_results = True

    def result(self, x):
        return [x, ShapedArray(x.shape, "bool")]

    def numpy(self, x):
        return [x, x > 0]


class Twice(Op):
    """A toy that is made of another."""

    name = "test_twice"
    numpy = Absent("derived")

    def result(self, x):
        return x

    def decompose(self, x):
        return Scale(2)(x)


class Nothing(Op):
    """A toy without meaning, or with a wrong one."""

    name = "test_nothing"
    wrong: bool = False

    def result(self, x):
        return x

    @property
    def numpy(self):
        return (lambda x: x[None]) if self.wrong else None


@pytest.fixture(autouse=True)
def _toys_are_not_compiled(monkeypatch):
    def toy(op, avals):
        if op == Scale(100):
            return Compiled(code(ADD, symbols=[1]), avals * 2, avals) if len(avals) > 1 else None
        return Reference(op, avals) if op.name.startswith("test_") else None

    monkeypatch.setattr(dispatch, "compilers", [toy, *dispatch.compilers])
    yield
    for name in ("test_scale", "test_both", "test_twice", "test_nothing"):
        assert name in Op.registry


def scalar(value):
    return from_numpy(np.float32(value))


def test_what_goes_in():
    op = Scale(3)
    for value in (scalar(2), 2.0, np.float32(2), np.array(2, np.float32)):
        out = evaluate(op, (value,))
        assert type(out) is Array
        assert float(out) == 6
    assert evaluate(op, (2.0,)).weak_type
    assert evaluate(op, (2,)).dtype == np.int32
    for wrong in ("text", [1, 2], None, object()):
        with pytest.raises(TypeError, match="not a valid array type"):
            evaluate(op, (wrong,))


def test_results():
    first, positive = evaluate(Both(), (from_numpy(np.array([1.0, -1.0])),))
    assert first.tolist() == [1, -1]
    assert positive.tolist() == [True, False]
    assert type(evaluate(Both(), (1.0,))) is list
    assert float(evaluate(Twice(), (4.0,))) == 8
    with pytest.raises(NotImplementedError, match="test_nothing has no rule"):
        evaluate(Nothing(), (1.0,))
    with pytest.raises(RuntimeError, match=r"gave shape \(1, 2\).*f32\[2\]"):
        evaluate(Nothing(True), (from_numpy(np.ones(2)),))


def test_equal_instances_share_their_executables(monkeypatch):
    made = []
    before = dispatch.executable
    monkeypatch.setattr(dispatch, "executable", lambda *a: made.append(a) or before(*a))
    dispatch.clear_caches()
    for _ in range(3):
        evaluate(Scale(7), (scalar(1),))
        evaluate(Scale(7), (from_numpy(np.ones(2, np.float32)),))
    assert len(made) == 2
    dispatch.clear_caches()
    evaluate(Scale(7), (scalar(1),))
    assert len(made) == 3


def test_few_operations_are_remembered(monkeypatch):
    monkeypatch.setattr(dispatch, "KEPT", len(dispatch._entries) + 5)
    for n in range(20):
        assert float(evaluate(Scale(1000 + n), (1.0,))) == 1000 + n
    assert len(dispatch._entries) <= dispatch.KEPT


def test_what_ops_remember_is_not_copied_or_pickled():
    op = Scale(5)
    evaluate(op, (1.0,))
    for other in (copy.copy(op), copy.deepcopy(op)):
        assert other == op
        assert "_entry" not in other.__dict__
    assert pickle.loads(pickle.dumps(op)) == op


def test_leaked_tracers_are_named():
    leaked = []
    trace_to_jaxpr(lambda x: leaked.append(x) or [x], [f32()])
    with pytest.raises(UnexpectedTracerError):
        evaluate(Scale(2), tuple(leaked))


def test_reference_only(monkeypatch):
    monkeypatch.setattr(dispatch, "REFERENCE_ONLY", True)
    monkeypatch.setattr(dispatch, "compilers", [lambda *a: pytest.fail("asked")])
    found = executable(Scale(2), (f32(3),))
    assert isinstance(found, Reference)
    assert found.text("jaxpr") == "test_scale[factor=2]"
    assert found.memory.argument == found.memory.output == 12


def test_operations_run_natively_even_while_something_traces():
    class Added(Op):
        name = "test_added"

        def result(self, x, y):
            return x

    runs = []

    class Watched(Compiled):
        def run(self, args):
            runs.append(args)
            return super().run(args)

    op = Added()
    dispatch.compilers.insert(0, lambda o, avals: (
        Watched(code(ADD, symbols=[1]), avals, avals[:1]) if o is op else None
    ))  # fmt: skip
    s = scalar(2)
    quiet.value += 1
    try:
        for _ in range(3):
            assert float(evaluate(op, (s, s))) == 4
        assert len(runs) == 1  # the first; then the record
        assert float(evaluate(op, (s, 3.0))) == 5  # a number: not while it is not quiet
    finally:
        quiet.value -= 1
    del Op.registry["test_added"]


# Sequences of programs.


class Three(Op):
    """(hidden + a, a + b, their sum) by a program with an arena and a captured array."""

    name = "test_three"
    multiple_results = True

    def result(self, a, b):
        return [a, a, a]


class Plus(Op):
    name = "test_plus"

    def result(self, a, b):
        return a


def find(op, avals):
    if isinstance(op, Three):
        program = code(THREE, hidden=[scalar(100)], arena=64, nanoseconds=5.0)
        return Compiled(program, avals, [f32()] * 3)
    if isinstance(op, Plus):
        return Compiled(code(ADD, symbols=[avals[0].size]), avals, avals[:1])
    return Reference(op, avals)


def run(closed):
    program = sequence(closed, find)
    count = len(closed.out_avals)
    entry = Entry(None)
    record = Record(program, closed.in_avals, closed.out_avals, result=as_list(count))
    entry.add_record(Pattern(len(closed.in_avals), (), None), record)
    return entry


needs_native = pytest.mark.skipif(native() is None, reason="sequences are native")


@needs_native
def test_a_sequence():
    a, b, h, s, t, u, v, w = (Var(f32()) for _ in range(8))
    two = Literal(np.float32(2), f32())
    eqns = [
        Equation(Three(), [a, b], [h, s, t]),  # 100 + a, a + b, 100 + 2 a + b
        Equation(Plus(), [s, two], [u]),
        Equation(Plus(), [u, u], [v]),
        Equation(Plus(), [v, t], [w]),
    ]
    closed = ClosedJaxpr(Jaxpr([], [a, b], [w, a, two, w, h], eqns))
    entry = run(closed)
    for x, y in ((1, 2), (10, 20)):
        w_ = 2 * (x + y + 2) + 100 + 2 * x + y
        assert [float(o) for o in entry(scalar(x), scalar(y))] == [w_, x, 2, w_, 100 + x]
    assert sequence(closed, find).nanoseconds == 5


@needs_native
def test_intermediates_share_the_arena():
    first = Var(f32(1000))
    eqns, last = [], first
    for _ in range(20):
        new = Var(f32(1000))
        eqns.append(Equation(Plus(), [last, last], [new]))
        last = new
    closed = ClosedJaxpr(Jaxpr([], [first], [last], eqns))
    assert sequence(closed, find).arena <= 2 * 4032 + 128
    x = from_numpy(np.arange(1000, dtype=np.float32))
    (out,) = run(closed)(x)
    assert (np.asarray(out) == np.arange(1000, dtype=np.float32) * 2**20).all()


@needs_native
def test_what_cannot_be_a_sequence():
    a = Var(f32())
    b = Var(f32())
    assert sequence(ClosedJaxpr(Jaxpr([], [a], [b], [Equation(Scale(2), [a], [b])])), find) is None
    long = [Equation(Plus(), [a, a], [Var(f32())]) for _ in range(40)]
    assert sequence(ClosedJaxpr(Jaxpr([], [a], [a], long)), find) is None
    empty = run(ClosedJaxpr(Jaxpr([], [a], [a], [])))
    assert float(empty(scalar(3))[0]) == 3


@needs_native
def test_constants_of_a_sequence_are_hidden():
    c, a, b = Var(f32()), Var(f32()), Var(f32())
    closed = ClosedJaxpr(Jaxpr([c], [a], [b], [Equation(Plus(), [a, c], [b])]), [scalar(7)])
    assert float(run(closed)(scalar(1))[0]) == 8
