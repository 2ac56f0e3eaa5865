"""Doors that load at first use: the mechanism, and what the package's own doors keep unloaded."""

import importlib
import pkgutil
import subprocess
import sys
import textwrap

import pytest

import covector
from covector._base.lazy import lazily

DOORS = ("covector", "covector.numpy", "covector.lax", "covector.nn", "covector.ops",
         "covector.ops.control", "covector.ops.linalg", "covector.ops.pointwise",
         "covector.debug", "covector.experimental", "covector.scipy")  # fmt: skip


def door(tmp_path, monkeypatch, text):
    """A package `lazy_door` with this text; its modules `one`, `two` note that they were loaded."""
    package = tmp_path / "lazy_door"
    package.mkdir()
    for name in ("one", "two"):
        (package / f"{name}.py").write_text(f"value, other = {name!r}, [{name!r}]\n")
    (package / "__init__.py").write_text(
        "from covector._base.lazy import lazily as _lazily\n" + textwrap.dedent(text)
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lazy_door", "lazy_door.one", "lazy_door.two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("lazy_door")


def test_names_are_loaded_at_first_use(tmp_path, monkeypatch):
    found = door(tmp_path, monkeypatch, """
        with _lazily(globals()):
            from lazy_door import two
            from lazy_door.one import other, value as renamed
        __all__ = ["renamed", "other"]
    """)  # fmt: skip
    assert "lazy_door.one" not in sys.modules
    assert dir(found) == ["other", "renamed", "two"]
    assert found.renamed == "one"
    assert "lazy_door.two" not in sys.modules
    assert found.two.value == "two"
    assert vars(found)["renamed"] == "one"  # the second time nobody asks
    assert found.other is found.other is sys.modules["lazy_door.one"].other
    with pytest.raises(AttributeError, match="'lazy_door' has no attribute 'value'"):
        _ = found.value


def test_from_and_star_imports(tmp_path, monkeypatch):
    door(tmp_path, monkeypatch, """
        with _lazily(globals()):
            from lazy_door.one import value
            from lazy_door.two import other
        __all__ = ["other", "value"]
    """)  # fmt: skip
    names = {}
    exec("from lazy_door import value", names)
    assert names["value"] == "one"
    assert "lazy_door.two" not in sys.modules
    exec("from lazy_door import *", names)
    assert names["other"] == ["two"]


def test_a_door_may_have_more(tmp_path, monkeypatch):
    found = door(tmp_path, monkeypatch, """
        with _lazily(globals(), {"more": 3}.get, lambda: ["more"]):
            from lazy_door.one import value
    """)  # fmt: skip
    assert (found.more, found.value) == (3, "one")
    assert dir(found) == ["more", "value"]


def test_only_from_imports_are_lazy(tmp_path, monkeypatch):
    with pytest.raises(
        ImportError, match=r"`from package.module import names`; got 'lazy_door.one'"
    ):
        door(tmp_path, monkeypatch, """
            with _lazily(globals()):
                import lazy_door.one
        """)  # fmt: skip
    assert importlib.import_module("colorsys").__name__ == "colorsys"  # imports are as they were


def test_others_import_as_ever_meanwhile():
    with lazily({"__name__": "somewhere"}):
        import fractions as found  # the block is that of other globals
    assert found.Fraction(1, 2) == 0.5


@pytest.mark.parametrize("name", DOORS)
def test_what_doors_name_is_there(name):
    """And no module of a package takes the place of a function of the same name."""
    found = importlib.import_module(name)
    for public in found.__all__:
        getattr(found, public)
    for module in pkgutil.iter_modules(getattr(found, "__path__", ())):
        value = vars(found).get(module.name)
        assert value is None or value is sys.modules[f"{name}.{module.name}"], module.name


def run(code):
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_package_alone_loads_next_to_nothing():
    loaded = run("import sys, covector; print(*sys.modules)")
    assert {m for m in loaded if m.startswith("covector")} == {
        "covector", "covector._base", "covector._base.lazy", "covector.version",
    }  # fmt: skip
    assert not {"numpy", "llvmlite", "inspect"} & set(loaded)


def test_a_first_sum_loads_what_it_needs():
    """The second time: then machine code is on disk, and no compiler is needed."""
    code = "import sys, covector.numpy as cnp; x = cnp.ones(3) + 1; print(*sys.modules)"
    run(code)
    loaded = run(code)
    spared = ["scipy", "logging", "covector.api.jit", "covector.compiler.pipeline",
              "covector.compiler.math", "covector.backends.cpu.emit", "covector.numpy.linalg",
              "covector.backends.cpu.library",
              "covector.transforms.vmap", "covector.numpy._sets", "covector.lax", "covector.nn",
              "covector.random", "covector.parallel.op", "covector.ops.convolution",
              "covector.ops.linalg"]  # fmt: skip
    assert [name for name in spared if name in loaded] == []


def ours(code):
    """The package's modules that a new process has loaded after `code`."""
    return [
        m
        for m in run(f"{textwrap.dedent(code)}\nimport sys; print(*sys.modules)")
        if m.startswith("covector")
    ]


def modules_about(words):
    """The package's modules with one of the words in their last name; each word is in some."""
    found = {word: set() for word in words}
    for module in pkgutil.walk_packages(covector.__path__, "covector."):
        for word in words:
            if word in module.name.rpartition(".")[2]:
                found[word].add(module.name)
    assert [word for word, names in found.items() if not names] == []
    return set().union(*found.values())


def test_the_door_of_numpy_loads_no_function_yet():
    loaded = ours("import covector.numpy")
    spared = modules_about([
        "elementwise", "reductions", "statistics", "scatter", "shape", "convert", "treedef",
        "debug_", "purity", "sharding", "propagate", "interchange", "check", "jit", "pipeline",
    ])  # fmt: skip
    assert spared & {*loaded} == set()
    assert len(loaded) < 75


def test_methods_are_found_when_first_wanted():
    shown = run("""
        import covector as cv, covector.numpy as cnp
        from covector.numpy.methods import Later
        from covector.runtime.array import Array
        from covector.trace.tracer import Tracer
        def waits():
            return [isinstance(vars(kind)["mean"], Later) for kind in (Array, Tracer)]
        x = cnp.ones(3)
        print(waits(), float(x.mean()), waits(), Array.mean is cnp.mean, Array.at is x.at)
        print(float(cv.jit(lambda x: x.mean())(x)), waits(), hasattr(x, "no_such"))
    """)
    assert " ".join(shown) == ("[True, True] 1.0 [False, True] True False 1.0 [False, False] False")


def test_a_first_compilation_loads_what_the_program_needs():
    """Passes, loops and emitters for scalars alone; nothing for what only others ask."""
    loaded = ours("""
        import covector as cv, covector.numpy as cnp
        cv.config.update("enable_compilation_cache", False)
        cv.config.update("enable_checks", False)
        cv.jit(lambda x: x * cnp.sin(x) + 3.0)(1.5)""")
    assert "covector.compiler.pipeline" in loaded
    spared = modules_about([
        "complex_", "matri", "scatter", "reduc", "widen", "contract", "nested", "views", "callback",
        "elementwise_loops", "collective", "columns", "serial", "asks", "epilogue", "prologue",
        "in_place", "control", "fold", "tile", "gamma", "bessel", "verify", "stablehlo", "stages",
        "inspect", "debug_", "vmap", "transpose", "wire",
    ])  # fmt: skip
    assert spared & {*loaded} == set()
    assert len(loaded) < 185


@pytest.mark.parametrize("name", [
    "covector.ops.pointwise", "covector.runtime.array", "covector.numpy.linalg", "covector.errors",
])  # fmt: skip
def test_any_module_may_be_the_first(name):
    """Whatever is imported first, the sockets are filled, once."""
    shown = run(f"""
        import {name}
        from covector.runtime.array import Array
        import covector
        print(type(covector.jit(lambda x: x + 1.0)(2.0)) is Array)
    """)
    assert shown == ["True"]


def test_threads_that_come_first_together():
    shown = run("""
        import importlib, threading
        together = threading.Barrier(4)
        def enter(name, out):
            together.wait()
            out.append(float((importlib.import_module(name).exp(0.0) + 1.0)))
        out = []
        rooms = ["covector.numpy", "covector.lax"] * 2
        threads = [threading.Thread(target=enter, args=(r, out)) for r in rooms]
        for t in threads: t.start()
        for t in threads: t.join()
        print(out)
    """)
    assert "".join(shown) == "[2.0,2.0,2.0,2.0]"


def test_all_primitives_are_known():
    """Their modules load at first use; who asks for all of them, or by name, has them loaded."""
    shown = run("""
        import covector.numpy
        from covector.ir.op import Op, primitives
        early = dict.__len__(Op.registry)
        print("qr" in Op.registry, Op.registry["shard_map"].name, Op.registry.get("no_such"))
        print(early < len(primitives()), set(primitives()) <= set(Op.registry))
    """)
    assert shown == ["True", "shard_map", "None", "True", "True"]
