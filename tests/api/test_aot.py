"""Ahead of time: traced, lowered, compiled; and names, compile-time values, live arrays."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import covector as cv
import covector.numpy as cnp
from covector import jit, lax

captured = cnp.arange(4.0)


def f(x: Any, *, scale: Any) -> Any:
    return {"sum": (x + captured) * scale, "first": x[0]}


STRUCT = cv.ShapeDtypeStruct((4,), "float32")


def test_every_stage_knows_the_types() -> None:
    traced = jit(f).trace(STRUCT, scale=2.0)
    lowered = traced.lower()
    for stage in (traced, lowered, lowered.compile()):
        (x,), named = stage.in_avals
        assert (x.shape, named["scale"].weak_type) == ((4,), True)
        assert stage.out_info["sum"] == STRUCT
        assert stage.out_info["first"].shape == ()
        assert set(stage.out_info) == {"sum", "first"}
        (info,), others = stage.args_info
        assert (info.shape, info.dtype, info.donated) == ((4,), np.float32, False)
        assert others["scale"].shape == ()
        assert stage.in_tree == cv.tree_util.tree_structure(((0,), {"scale": 0}))
        assert stage.out_tree == cv.tree_util.tree_structure({"first": 0, "sum": 0})
        assert stage.fun_name == "f"
        assert stage.donate_argnums == ()
    assert [a.shape for a in traced.jaxpr.in_avals] == [(4,), (4,), ()]  # the captured one first
    assert repr(traced).startswith("Traced(f, ")


def test_the_door_has_their_classes() -> None:
    traced = jit(f).trace(STRUCT, scale=2.0)
    assert isinstance(traced, cv.stages.Traced)
    assert isinstance(traced.lower(), cv.stages.Lowered)
    assert isinstance(traced.lower().compile(), cv.stages.Compiled)
    assert isinstance(jit(f), cv.stages.Wrapped)
    infos = cv.tree_util.tree_leaves(traced.args_info)
    assert all(isinstance(info, cv.stages.ArgInfo) for info in infos)
    assert infos[0] == cv.stages.ArgInfo(cv.typeof(cnp.ones(4)), False)
    assert repr(infos[0]) == "ArgInfo(f32[4], donated=False)"


def test_lower_is_trace_and_lower() -> None:
    assert jit(f).lower(STRUCT, scale=1.0).as_text() == jit(f).trace(STRUCT, scale=1.0).lower(
    ).as_text()  # fmt: skip
    assert "stablehlo.add" in jit(f).lower(STRUCT, scale=1.0).as_text()
    assert jit(f).lower(STRUCT, scale=1.0).compiler_ir("stablehlo").startswith("module @jit_f")


def test_a_compiled_function_runs_and_refuses() -> None:
    compiled = jit(f).lower(STRUCT, scale=2.0).compile()
    out = compiled(cnp.ones(4), scale=2.0)
    np.testing.assert_array_equal(out["sum"], [2, 4, 6, 8])
    out = compiled.call(np.ones(4, np.float32), scale=1.0)
    np.testing.assert_array_equal(out["sum"], [1, 2, 3, 4])
    with pytest.raises(TypeError, match=r"argument x must be of type f32\[4\]; got f32\[5\]"):
        compiled(cnp.ones(5), scale=2.0)
    with pytest.raises(TypeError, match=r"argument x must be of type f32\[4\]; got i32\[4\]"):
        compiled(cnp.arange(4), scale=2.0)
    with pytest.raises(TypeError, match="structure"):
        compiled(cnp.ones(4))
    with pytest.raises(TypeError, match="cannot be transformed"):
        jit(lambda x: compiled(x, scale=1.0))(cnp.ones(4))
    with pytest.raises(TypeError, match="which is not a valid array type"):
        compiled("four", scale=2.0)


def test_static_arguments_are_part_of_the_program() -> None:
    g = jit(lambda n, x: x * n, static_argnums=0)
    compiled = g.lower(3, STRUCT).compile()
    np.testing.assert_array_equal(compiled(cnp.ones(4)), [3, 3, 3, 3])


def test_donation_ahead_of_time() -> None:
    g = jit(lambda x, y: x + y, donate_argnums=0)
    lowered = g.lower(STRUCT, STRUCT)
    (x, y), _ = lowered.args_info
    assert (x.donated, y.donated) == (True, False)
    assert lowered.donate_argnums == (0,)
    compiled = lowered.compile()
    assert compiled.memory_analysis().alias_size_in_bytes == 16
    given = cnp.ones(4)
    np.testing.assert_array_equal(compiled(given, cnp.ones(4)), [2, 2, 2, 2])
    assert given.is_deleted()


def test_costs() -> None:
    product = jit(lambda a, b: cnp.tanh(a @ b))
    a, b = cv.ShapeDtypeStruct((8, 16), "float32"), cv.ShapeDtypeStruct((16, 4), "float32")
    lowered = product.lower(a, b)
    cost = lowered.cost_analysis()
    assert cost["flops"] == 2 * 8 * 16 * 4
    assert cost["transcendentals"] == 8 * 4
    assert cost["bytes accessed"] == 4 * (8 * 16 + 16 * 4 + 3 * 8 * 4)
    batched = jit(lambda a, b: lax.batch_matmul(a, b)).lower(
        cv.ShapeDtypeStruct((3, 8, 16), "float32"), cv.ShapeDtypeStruct((3, 16, 4), "float32")
    )
    assert batched.cost_analysis()["flops"] == 3 * 2 * 8 * 16 * 4
    loop = jit(lambda x: lax.fori_loop(0, 10, lambda i, c: c * 2.0, x)).lower(STRUCT)
    assert loop.cost_analysis()["flops"] >= 10 * 4

    def chain(x: Any) -> Any:
        return (x * 2 + 1) * x - 3

    fused = jit(chain).lower(STRUCT).compile().cost_analysis()
    assert fused["flops"] == 4 * 4
    assert fused["bytes accessed"] == 2 * 16  # one kernel: reads x, writes the result
    assert jit(chain).lower(STRUCT).cost_analysis()["bytes accessed"] > 4 * 16


def test_memory_from_the_plan() -> None:
    big = cv.ShapeDtypeStruct((64, 64), "float32")
    memory = (
        jit(lambda a, b: cnp.sort(a @ b, axis=0) @ b).lower(big, big).compile().memory_analysis()
    )
    assert memory.argument_size_in_bytes == 2 * 64 * 64 * 4
    assert memory.output_size_in_bytes == 64 * 64 * 4
    assert memory.temp_size_in_bytes >= 64 * 64 * 4
    assert memory.alias_size_in_bytes == 0


def test_places() -> None:
    compiled = jit(f).lower(STRUCT, scale=2.0).compile()
    (x,), named = compiled.input_shardings
    assert x == named["scale"] == cnp.ones(1).sharding
    assert set(compiled.output_shardings) == {"sum", "first"}
    outs = compiled.runtime_executable().run([captured, cnp.ones(4), cnp.asarray(1.0)])
    np.testing.assert_array_equal(outs[1], [1, 2, 3, 4])


def test_inline_puts_the_equations_in_place_of_a_call() -> None:
    def body(x: Any) -> Any:
        return cnp.sin(x) * 2

    called = cv.make_jaxpr(lambda x: jit(body)(x))(1.0)
    inlined = cv.make_jaxpr(lambda x: jit(body, inline=True)(x))(1.0)
    assert [e.op.name for e in called.eqns] == ["jit"]
    assert [e.op.name for e in inlined.eqns] == ["sin", "mul"]
    assert jit(body, keep_unused=True, inline=True)(0.0) == 0.0


def test_scopes_name_equations() -> None:
    @cv.named_scope("layer")
    def layer(x: Any) -> Any:
        with cv.named_scope("inner"):
            x = cnp.sin(x)
        return x + 1

    eqns = cv.make_jaxpr(lambda x: cv.named_call(layer, name="net")(x) * 2)(1.0).eqns
    assert [e.scope for e in eqns] == [("net", "layer", "inner"), ("net", "layer"), ()]
    with pytest.raises(TypeError, match="string"):
        cv.named_scope(3)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError), cv.named_scope("gone"):
        _ = 1 / 0
    assert cv.make_jaxpr(cnp.sin)(1.0).eqns[0].scope == ()


def test_scopes_count_from_the_program_on() -> None:
    inner = jit(lambda x: cnp.sin(x) * 2)

    def outer(x: Any) -> Any:
        with cv.named_scope("outer"):
            return lax.cond(x > 0, lambda: inner(x), lambda: x)

    for _ in range(2):
        call = cv.make_jaxpr(outer)(1.0).eqns[-1]
        assert (call.op.name, call.scope) == ("cond", ("outer",))
        (eqn,) = call.op.params["branches"][1].eqns
        assert {e.scope for e in (eqn, *eqn.op.params["jaxpr"].eqns)} == {()}


def test_compile_time_values_while_tracing() -> None:
    @jit
    def g(x: Any) -> Any:
        with cv.ensure_compile_time_eval():
            n = int(cnp.sum(cnp.arange(4)))
        return cnp.ones(n) * x

    assert g(2.0).shape == (6,)

    @jit
    def wrong(x: Any) -> Any:
        return cnp.ones(int(cnp.sum(cnp.arange(4)))) * x

    with pytest.raises(cv.errors.ConcretizationTypeError):
        wrong(2.0)


def test_live_arrays() -> None:
    class Holder:
        pass

    holder = Holder()
    holder.x = cnp.ones(11)  # type: ignore[attr-defined]
    in_list = [[cnp.ones(12)]]
    local = cnp.ones(13)
    sizes = {x.size for x in cv.live_arrays()}
    assert {11, 12, 13} <= sizes
    assert {x.size for x in cv.live_arrays("cpu")} >= {11, 12, 13}
    assert cv.live_arrays("tpu") == []
    del holder, in_list, local
    gc.collect()
    assert not {11, 12, 13} & {x.size for x in cv.live_arrays()}


def test_no_tracing_refuses_a_trace() -> None:
    g = jit(lambda x: x + 1)
    g(1.0)
    with cv.no_tracing(True), pytest.raises(RuntimeError, match=r"no_tracing.*x was f32"):
        g(1)
