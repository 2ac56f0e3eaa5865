"""Every row of docs/differences.md, on both sides: what the oracle does, and what we do."""

from __future__ import annotations

import collections
import enum
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covector
from covector.ir.text import parse_jaxpr, print_jaxpr

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
CASES: dict[str, Callable[[Any], None]] = {}


def row(title: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Registers the test of the row that begins with `title`."""

    def register(test: Callable[[Any], None]) -> Callable[[Any], None]:
        CASES[title] = test
        return test

    return register


def rows() -> list[str]:
    """The first cells of the page's tables."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    cells = [re.split(r"(?<!\\)\|", line)[1].strip() for line in lines]
    return [c for c in cells if c not in ("what", "---")]


def test_every_row_has_its_test() -> None:
    assert sorted(rows()) == sorted(CASES)


@pytest.mark.parametrize("title", CASES)
def test_row(title: str, jax: Any) -> None:
    CASES[title](jax)


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6)


@row("a tangent of 0 times an infinite or NaN coefficient")
def _(jax: Any) -> None:
    for lib, wanted in ((jax, np.nan), (covector, 0.0)):
        np_ = lib.numpy
        same(lib.grad(lambda x, np_=np_: np_.where(x > 0, np_.exp(1 / x), 0.0))(0.0), wanted)
        same(lib.grad(np_.std)(np_.ones(3)), [wanted] * 3)
        same(lib.grad(np_.sqrt)(0.0), np.inf)
    with covector.config.scoped(singular_derivatives="ieee"):
        same(covector.grad(lambda x: covector.numpy.sqrt(x) * 0.0)(0.0), np.nan)


@row("`abs`, `hypot` and norms at 0")
def _(jax: Any) -> None:
    for lib, wanted in ((jax, (1.0, 0.5, np.nan)), (covector, (0.0, 0.0, 0.0))):
        same(lib.grad(lib.numpy.abs)(0.0), wanted[0])
        same(lib.grad(lib.numpy.hypot)(0.0, 0.0), wanted[1])
        same(lib.grad(lib.numpy.linalg.norm)(lib.numpy.zeros(2)), [wanted[2]] * 2)
    same(covector.grad(lambda x: covector.numpy.linalg.norm(x, 1))(np.zeros(2, "f4")), [0, 0])


@row("`sign` of a complex number")
def _(jax: Any) -> None:
    z, t = 1 + 1j, 1j
    same(jax.jvp(jax.numpy.sign, (z,), (t,))[1], 0)
    step = 1e-6
    wanted = ((z + step * t) / abs(z + step * t) - z / abs(z)) / step
    got = covector.jvp(covector.numpy.sign, (z,), (t,))[1]
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4)


@row("`nextafter`")
def _(jax: Any) -> None:
    with pytest.raises(NotImplementedError):
        jax.jvp(lambda x: jax.numpy.nextafter(x, jax.numpy.float32(9)), (1.0,), (3.0,))
    out = covector.jvp(lambda x: covector.numpy.nextafter(x, np.float32(9)), (1.0,), (3.0,))
    same(out[1], 3.0)


@row("`reduce_max`, `reduce_min` of numbers with a NaN")
def _(jax: Any) -> None:
    x = np.array([1, np.nan, 2], np.float32)
    for lib, wanted in ((jax, np.nan), (covector, 0.0)):
        same(lib.grad(lib.numpy.max)(x), [wanted] * 3)
        same(lib.grad(lib.numpy.min)(x), [wanted] * 3)


@row("`clamp(low, x, high)` with low > high")
def _(jax: Any) -> None:
    for lib, wanted in ((jax, [0, 0, 1]), (covector, [1, 1, 1])):
        clamp = lib.lax.clamp
        same([clamp(3.0, x, 1.0) for x in (0.0, 1.0, 2.0)], [1, 1, 1])
        same([lib.grad(clamp, 2)(3.0, x, 1.0) for x in (0.0, 1.0, 2.0)], wanted)
        same([lib.grad(clamp, k)(3.0, x, 1.0) for x in (0.0, 1.0, 2.0) for k in (0, 1)], [0] * 6)


@row(
    "`scatter_min`, `scatter_max` (`.at[].min`, `.at[].max`) with a position out of bounds, clipped"
)
def _(jax: Any) -> None:
    for lib, wanted in ((jax, np.inf), (covector, 1.0)):
        np_ = lib.numpy

        def total(x: Any, u: Any, np_: Any = np_) -> Any:
            return x.at[np_.array([7, 1])].min(u, mode="clip").sum()

        x, u = np_.array([1.0, 5.0, 3.0]), np_.array([2.0, 0.0])
        same(total(x, u), 3.0)
        same(lib.grad(total, 1)(x, u), [wanted, 1.0])


@row("`scatter_mul` (`.at[].multiply`) with positions that repeat")
def _(jax: Any) -> None:
    def total(lib: Any, x: Any, u: Any) -> Any:
        return lib.numpy.asarray(x).at[lib.numpy.array([1, 1])].multiply(u).sum()

    x, u = np.array([1, 5, 3], np.float32), np.array([2, 3], np.float32)
    with pytest.raises(NotImplementedError):
        jax.grad(lambda u: total(jax, x, u))(u)
    same(covector.grad(lambda u: total(covector, x, u))(u), [15, 10])


@row("int64 positions beyond 2^32 that fill or drop")
def _(jax: Any) -> None:
    for lib, wanted in ((jax, (1.0, 2.0)), (covector, (np.nan, 1.0))):
        with lib.enable_x64(True):
            far = lib.numpy.array([2**32 + 1])
            same(lib.numpy.take(lib.numpy.arange(4.0), far, mode="fill"), [wanted[0]])
            same(lib.numpy.arange(4.0).at[far].add(1.0)[1], wanted[1])


@row("negative int8 or int16 start of `dynamic_slice` along more elements than the type counts")
def _(jax: Any) -> None:
    x = np.arange(300)
    for lib, wanted in ((jax, 43), (covector, 299)):
        same(lib.lax.dynamic_slice(x, (lib.numpy.int8(-1),), (1,)), [wanted])
        same(lib.lax.dynamic_slice(x, (lib.numpy.int32(-1),), (1,)), [299])


@row("several updates of one element by `scatter` (`.at[].set`)")
def _(jax: Any) -> None:
    del jax  # Its order is undefined.
    places = covector.numpy.array([1, 1, 0, 1])

    def update(u: Any) -> Any:
        return covector.numpy.zeros(2).at[places].set(u)

    u = np.array([1, 2, 3, 4], np.float32)
    for fun in (update, covector.jit(update)):
        same(fun(u), [3, 4])
    same(covector.grad(lambda u: update(u).sum())(u), [0, 0, 1, 1])


class Level(enum.IntEnum):
    LOW = 1


@row("`conv_general_dilated_patches` of infinite elements")
def _(jax: Any) -> None:
    x = np.array([[[1, np.inf, 2]]], np.float32)
    for lib, wanted in ((jax, np.nan), (covector, 1.0)):
        same(lib.lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")[0, 0, 0], wanted)


@row("whether `1j` is true to `any`, `all` and `asarray(x, bool)`")
def _(jax: Any) -> None:
    for lib, wanted in ((jax, False), (covector, True)):
        np_ = lib.numpy
        z = np_.array([1j])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            given = [np_.any(z), np_.all(z), np_.asarray(z, bool)[0]]
        assert [bool(x) for x in given] == [wanted] * 3
        assert bool(z[0])


@row("`unique` of an array without elements, with `size`")
def _(jax: Any) -> None:
    for lib, size, width in ((jax, 0, 1), (covector, 2, 2)):
        np_ = lib.numpy
        found = np_.unique_all(np_.zeros(0), size=2, fill_value=7)
        assert found.values.tolist() == [7, 7]
        assert found.indices.tolist() == found.counts.tolist() == [0] * size
        assert np_.unique(np_.zeros((0, 3)), size=2, axis=1).shape == (0, width)


@row("members of an `IntEnum` in `result_type`")
def _(jax: Any) -> None:
    assert jax.numpy.result_type(Level.LOW, np.int8) == np.int32
    for lib in (jax, covector):
        assert (lib.numpy.ones(2, "int8") + Level.LOW).dtype == np.int8
    assert covector.numpy.result_type(Level.LOW, np.int8) == np.int8


Point = collections.namedtuple("Point", ["x", "y"])


@row("`flatten_one_level_with_keys` of a named tuple")
def _(jax: Any) -> None:
    for lib, wanted in ((jax, [".x", ".x"]), (covector, [".x", ".y"])):
        pairs, _ = lib.tree_util.default_registry.flatten_one_level_with_keys(Point(1, 2))
        assert [str(key) for key, _ in pairs] == wanted


@row("`tree_transpose` where the outer tree has no leaves")
def _(jax: Any) -> None:
    def transposed(lib: Any) -> Any:
        util = lib.tree_util
        return util.tree_transpose(util.tree_structure(()), util.tree_structure([0, 0]), ())

    with pytest.raises(ValueError, match="Too few leaves"):
        transposed(jax)
    assert transposed(covector) == [(), ()]


@row("two trees of different structure")
def _(jax: Any) -> None:
    def message(lib: Any) -> str:
        with pytest.raises(ValueError, match=r"differ|prefix") as error:
            lib.tree_util.tree_map(lambda a, b: 0, {"a": (1, 2)}, {"a": [1, 2]})
        return str(error.value)

    assert message(jax).count("\n") > 1
    assert message(covector) == (
        "tree_map: the first tree and tree 2 differ at ['a']: the first tree has a tuple of 2, "
        "tree 2 has a list of 2"
    )


@row("a printed Jaxpr")
def _(jax: Any) -> None:
    def text(lib: Any) -> str:
        return str(lib.make_jaxpr(lambda x, y: lib.numpy.sin(x) * y)(2.0, np.ones(3, "f4")))

    assert "a:f32[] b:f32[3]" in text(jax)
    assert "a:f32[]* b:f32[3]" in text(covector)
    assert print_jaxpr(parse_jaxpr(text(covector))) == text(covector)


@row("`jit(f).lower(x).as_text(stage)`")
def _(jax: Any) -> None:
    theirs, ours = (lib.jit(lib.numpy.sin).lower(1.0) for lib in (jax, covector))
    assert theirs.as_text("hlo").startswith("HloModule")
    signs = {
        "jaxpr": "{ lambda ;",
        "stablehlo": "module @",
        "simplified": "{ lambda ;",
        "kernels": "program ",
        "llvm": "target triple",
        "assembly": "\t",
    }
    for stage, sign in signs.items():
        assert ours.as_text(stage).startswith(sign)
    for lowered in (theirs, ours):
        assert lowered.as_text().startswith("module @")
        with pytest.raises(ValueError, match="nonsense"):
            lowered.as_text("nonsense")


@row("reverse mode through `while_loop`, and through `fori_loop` with traced bounds")
def _(jax: Any) -> None:
    def slopes(lib: Any) -> Any:
        def halvings(x: Any, n: Any) -> Any:
            return lib.lax.fori_loop(0, n, lambda i, x: x / 2, x)

        return lib.jit(lib.grad(halvings))(1.0, 3)

    with pytest.raises(ValueError, match="Reverse-mode"):
        slopes(jax)
    same(slopes(covector), 0.125)


@row("forward mode through a function with a custom vjp")
def _(jax: Any) -> None:
    def slope(lib: Any) -> Any:
        f = lib.custom_vjp(lambda x: x * x)
        f.defvjp(lambda x: (x * x, x), lambda x, ct: (3 * x * ct,))
        return lib.jvp(f, (2.0,), (1.0,))[1]

    with pytest.raises(TypeError, match="forward-mode"):
        slope(jax)
    same(slope(covector), 6.0)


@row("`vmap` of `cond` and `switch` with a predicate for each example")
def _(jax: Any) -> None:
    def text(lib: Any) -> str:
        def long(x: Any) -> Any:
            for _ in range(20):
                x = lib.numpy.sin(x)
            return x

        f = lib.vmap(lambda p, x: lib.lax.cond(p, long, lambda x: x, x))
        return str(lib.make_jaxpr(f)(np.ones(3, bool), np.ones(3, "f4")))

    assert "select_n" in text(jax)
    assert "cond[" not in text(jax)
    assert "select_n" not in text(covector)
    assert "cond[" in text(covector)


@row("an exception in a callback of a compiled function")
def _(jax: Any) -> None:
    def bad(x: Any) -> Any:
        raise KeyError("no such thing")

    for lib, error in ((jax, jax.errors.JaxRuntimeError), (covector, KeyError)):
        like = lib.ShapeDtypeStruct((), np.float32)
        f = lib.jit(lambda x, lib=lib, like=like: lib.pure_callback(bad, like, x))
        with pytest.raises(error, match="no such thing"):
            f(1.0).block_until_ready()


@row("`vmap` of `while_loop` whose examples end at different times")
def _(jax: Any) -> None:
    def text(lib: Any) -> str:
        f = lib.vmap(lambda x: lib.lax.while_loop(lambda x: x > 1, lambda x: x / 2, x))
        same(f(lib.numpy.array([5.0, 1.0])), [0.625, 1.0])
        return str(lib.make_jaxpr(f)(np.ones(3, "f4")))

    assert "bool[3]" in text(jax)
    assert "bool[3]" not in text(covector)


@row("`eigh` and `svd` with equal values")
def _(jax: Any) -> None:
    def low(lib: Any) -> Any:
        def fun(x: Any) -> Any:
            v = lib.numpy.linalg.eigh(x)[1][:, :2]
            return (v @ v.T)[0, 2]

        return lib.grad(fun)(lib.numpy.diag(lib.numpy.array([1.0, 1.0, 3.0])))

    assert np.isnan(np.asarray(low(jax))).all()
    same(low(covector), [[0, 0, -0.25], [0, 0, 0], [-0.25, 0, 0]])


@row("eigenvectors of `eig`")
def _(jax: Any) -> None:
    def slope(lib: Any) -> Any:
        x = lib.numpy.array([[1.0, 0.5], [0.0, 2.0]])
        return lib.jvp(lambda x: abs(lib.numpy.linalg.eig(x)[1]) ** 2, (x,), (x,))[1]

    with pytest.raises(NotImplementedError, match="enable_eigvec_derivs"):
        slope(jax)
    np.testing.assert_allclose(np.asarray(slope(covector)), np.zeros((2, 2)), atol=1e-6)


@row("`householder_product`")
def _(jax: Any) -> None:
    def slope(lib: Any) -> Any:
        packed = np.zeros((2, 1), "f4")
        fun = lambda t: lib.lax.linalg.householder_product(packed, t)[0, 0]  # noqa: E731
        return lib.grad(fun)(np.ones(1, "f4"))

    with pytest.raises(NotImplementedError):
        slope(jax)
    same(slope(covector), [-1])


def both_vmaps(jax: Any, body: Callable[..., Any], x: Any, error: Any, wanted: Any) -> None:
    """`body(lax, numpy, x)` under a named axis: the oracle refuses."""
    with pytest.raises(error):
        jax.vmap(lambda x: body(jax.lax, jax.numpy, x), axis_name="i")(x)
    same(covector.vmap(lambda x: body(covector.lax, covector.numpy, x), axis_name="i")(x), wanted)


FOUR = np.arange(4, dtype=np.float32)
BLOCK = np.arange(32, dtype=np.float32).reshape(4, 4, 2)


@row("collectives with `axis_index_groups` under `vmap`")
def _(jax: Any) -> None:
    groups = [[0, 3], [2, 1]]
    both_vmaps(
        jax, lambda L, n, x: L.psum(x, "i", axis_index_groups=groups), FOUR, NotImplementedError,
        [3, 3, 3, 3],
    )  # fmt: skip


@row("`ppermute` under `vmap` with fewer pairs than examples")
def _(jax: Any) -> None:
    pairs = [(0, 1), (1, 2)]
    both_vmaps(jax, lambda L, n, x: L.ppermute(x, "i", pairs), FOUR, AssertionError, [0, 0, 1, 0])


@row("`all_gather`, `psum_scatter`, `ppermute` over several vmap axes")
def _(jax: Any) -> None:
    def gather(lib: Any) -> Any:
        inner = lib.vmap(lambda x: lib.lax.all_gather(x, ("i", "j")), axis_name="j")
        return lib.vmap(inner, axis_name="i")(FOUR.reshape(2, 2))

    with pytest.raises(AssertionError):
        gather(jax)
    same(gather(covector), np.broadcast_to(FOUR, (2, 2, 4)))


@row("`pmax`, `pmin`")
def _(jax: Any) -> None:
    def slope(L: Any, n: Any, x: Any) -> Any:
        lib = covector if L is covector.lax else jax
        return lib.grad(lambda x: L.pmax(x, "i"))(x)

    both_vmaps(jax, slope, FOUR, NotImplementedError, [0, 0, 0, 4])


@row("the gradient of an untiled `all_to_all` whose axes differ")
def _(jax: Any) -> None:
    def slope(L: Any, n: Any, x: Any) -> Any:
        lib = covector if L is covector.lax else jax
        return lib.grad(lambda x: (L.all_to_all(x, "i", 0, 1) ** 2).sum())(x)

    both_vmaps(jax, slope, BLOCK, ValueError, 2 * BLOCK)


@row("`all_to_all` with negative axes")
def _(jax: Any) -> None:
    both_vmaps(
        jax, lambda L, n, x: L.all_to_all(x, "i", -2, 0), BLOCK, AssertionError,
        BLOCK.transpose(1, 0, 2),
    )  # fmt: skip


@row("`reduce` and `reduce_window` by a function of one's own")
def _(jax: Any) -> None:
    def total(lib: Any, how: str) -> Callable[[Any], Any]:
        lax = lib.lax
        if how == "window":
            return lambda x: lax.reduce_window(x, 0.0, lambda a, b: a + b + a * b, (2,)).sum()
        if how == "start":
            return lambda c: lax.reduce_window(FOUR, c, lambda a, b: a + b + a * b, (2,)).sum()
        return lambda c: lax.reduce(FOUR, np.float32(0), lambda a, b: a + c * b, (0,))

    for how, at in (("window", FOUR), ("start", np.float32(0)), ("closure", np.float32(1))):
        with pytest.raises((ValueError, TypeError, NotImplementedError)):
            jax.grad(total(jax, how))(at)
        f, step = total(covector, how), np.float32(1e-2)
        change = (float(f(at + step)) - float(f(at - step))) / 0.02
        found = np.sum(np.asarray(covector.grad(f)(at)))
        np.testing.assert_allclose(found, change, rtol=1e-3)


@row("second derivative of a `custom_vjp` with `optimize_remat` under `checkpoint`")
def _(jax: Any) -> None:
    def second(lib: Any) -> Any:
        np_ = lib.numpy
        f = lib.custom_vjp(np_.sin)
        f.defvjp(
            lambda x: (np_.sin(x), np_.cos(x)), lambda cos, ct: (cos * ct,), optimize_remat=True
        )
        return lib.grad(lib.grad(lib.checkpoint(f)))(0.5)

    with pytest.raises(ValueError, match="Linearization"):
        second(jax)
    # The rule keeps the cosine as a residual, which is differentiated as any other value.
    same(second(covector), -np.sin(np.float32(0.5)))


@row("`vmap(f, out_axes=None)` of a result of a `custom_vjp` function that all examples share")
def _(jax: Any) -> None:
    def gradient(lib: Any) -> Any:
        np_ = lib.numpy
        f = lib.custom_vjp(lambda x, y: (x * y, np_.cos(y)))
        f.defvjp(
            lambda x, y: (f(x, y), (x, y)),
            lambda r, ct: (r[1] * ct[0], r[0] * ct[0] - np_.sin(r[1]) * ct[1]),
        )

        def total(y: Any) -> Any:
            each, shared = lib.vmap(f, (0, None), (0, None))(FOUR, y)
            return each.sum() + shared

        return lib.grad(total)(0.5)

    same(gradient(covector), FOUR.sum() - np.sin(np.float32(0.5)))
    same(gradient(jax), FOUR.sum() - 4 * np.sin(np.float32(0.5)))


@row(
    "a `custom_vjp` rule under `shard_map` that gives each device its part of the cotangent of an "
    "argument which all devices share"
)
def _(jax: Any) -> None:
    def gradient(lib: Any) -> Any:
        mesh = lib.sharding.Mesh(np.array(lib.devices()[:1]), ("x",))
        f = lib.custom_vjp(lambda w, v: w * v)
        f.defvjp(lambda w, v: (w * v, (w, v)), lambda r, ct: ((r[1] * ct).sum(), r[0] * ct))
        body = lambda w, v: lib.grad(lambda w: lib.lax.psum(f(w, v).sum(), "x"))(w)  # noqa: E731
        mapped = lib.shard_map(body, mesh=mesh, in_specs=(lib.P(), lib.P("x")), out_specs=lib.P())
        return mapped(np.float32(2), FOUR)

    with pytest.raises(ValueError, match="bwd rule"):
        gradient(jax)
    same(gradient(covector), FOUR.sum())


@row("a loop's carry that comes to differ between devices, under `shard_map`")
def _(jax: Any) -> None:
    def total(lib: Any) -> Any:
        mesh = lib.sharding.Mesh(np.array(lib.devices()[:1]), ("x",))
        body = lambda x: lib.lax.fori_loop(0, 3, lambda k, c: c + x.sum(), 1.0)[None]  # noqa: E731
        p = lib.P("x")
        return lib.shard_map(body, mesh=mesh, in_specs=p, out_specs=p)(FOUR)

    with pytest.raises(TypeError):
        total(jax)
    same(total(covector), [19.0])


@row("`memory_stats()` of CPU devices")
def _(jax: Any) -> None:
    assert jax.devices("cpu")[0].memory_stats() is None
    x = covector.numpy.ones(1000)
    assert covector.devices()[0].memory_stats()["bytes_in_use"] >= x.nbytes


@row("`num_cpu_devices`")
def _(jax: Any) -> None:
    assert jax.devices()
    with pytest.raises(RuntimeError):
        jax.config.update("jax_num_cpu_devices", 3)
    assert len(covector.devices()) == 1
    covector.config.update("jax_num_cpu_devices", 3)
    assert len(covector.devices()) == 3
    covector.config.update("jax_num_cpu_devices", -1)


@row("`pmap` with `axis_size` and no mapped argument")
def _(jax: Any) -> None:
    def place(lib: Any) -> Any:
        return lib.pmap(lambda: lib.lax.axis_index("i"), axis_name="i", axis_size=1)()

    with pytest.raises(ValueError, match="at least one argument"):
        place(jax)
    same(place(covector), [0])


@row("`make_mesh`")
def _(jax: Any) -> None:
    assert [t.name for t in jax.make_mesh((1,), ("x",)).axis_types] == ["Explicit"]
    assert covector.make_mesh((1,), ("x",)).axis_types == (covector.sharding.AxisType.Auto,)


@row("`vmap(…, chunk=n)`")
def _(jax: Any) -> None:
    with pytest.raises(TypeError):
        jax.vmap(np.sin, chunk=2)
    same(covector.vmap(covector.numpy.sin, chunk=3)(FOUR), np.sin(FOUR))


@row(
    "`scan`, `cond`, `while_loop` called outside `jit` with a function that reads a global which "
    "has changed"
)
def _(jax: Any) -> None:
    for lib, last in ((jax, 2.0), (covector, 20.0)):
        world: dict[str, Any] = {"step": 1.0}
        exec("def body(c, _):\n    return c + step, None", world)
        found = []
        for world["step"] in (1.0, 10.0):
            found.append(float(lib.lax.scan(world["body"], 0.0, None, length=2)[0]))
        assert found == [2.0, last]


@row("`debug_key_reuse` where `ks[0]`, an element of an array of keys, is read twice")
def _(jax: Any) -> None:
    for lib in (jax, covector):
        with lib.debug_key_reuse(True):
            keys = lib.random.split(lib.random.key(0))
            keys[0]
            if lib is covector:
                lib.random.normal(keys[0])
            with pytest.raises(lib.errors.KeyReuseError):
                lib.random.normal(keys[0])


@row("`debug_key_reuse` where a key is used again after `reshape` or `stack`")
def _(jax: Any) -> None:
    for lib in (jax, covector):
        with lib.debug_key_reuse(True):
            key = lib.random.key(0)
            moved = key.reshape(1)
            lib.random.normal(key)
            if lib is jax:
                lib.random.normal(moved[0])
            else:
                with pytest.raises(lib.errors.KeyReuseError):
                    lib.random.normal(moved[0])


@row(
    "`nn.scaled_matmul`, `nn.scaled_dot_general` with configurations, and their gradients on a CPU"
)
def _(jax: Any) -> None:
    dimensions = (((1,), (1,)), ((), ()))

    def product(lib: Any) -> Any:
        x = lib.numpy.ones((2, 64))
        config = lib.nn.get_scaled_dot_general_config("mxfp8")
        return lib.nn.scaled_dot_general(x, x, dimensions, configs=[config] * 3)

    np.testing.assert_allclose(product(covector), 64 * np.ones((2, 2)), rtol=0.1)
    with pytest.raises(NotImplementedError):
        product(jax)
