"""Keeps the order of the rooms (docs/design): who may import whom, read from the source by `ast`.

Nothing is imported and nothing runs, so that the test also holds for modules that need an extra.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "covector"
ROOT = Path(__file__).resolve().parent.parent / PACKAGE

# From the leaves up: a room may import itself and the rooms before it.
LADDER = (
    "_base", "dtypes", "tree", "sharding", "ir", "trace", "ops", "transforms", "compiler",
    "runtime", "backends", "parallel", "api",
)  # fmt: skip
# Every other room (lax, numpy, random, nn, …) is public API over `api`: these may import each other
# as long as no cycle arises. `debug` sees all of them. (A renamed room of the ladder would count as
# public too, and so be reported by each room below that imports it.)
TOP = "debug"
EXEMPT = ("__init__", "_wiring")  # the public door and the one module that knows everyone
LEAVES = ("version",)  # states a fact, imports nothing; everyone may read it

FORBIDDEN = (("compiler", "transforms"),)  # pairs that the order would allow
ONLY_IN = {"llvmlite": f"{PACKAGE}.backends.cpu"}  # foreign packages kept in one place

#: A room's second door: `covector.tree_util` has the functions of `covector.tree` by long names.
SAME_ROOM = {"tree_util": "tree"}

#: Loads what doors name, at first use.
LAZY = f"{PACKAGE}._base.lazy"

COMPUTED = "<computed>"  # the target of an `import_module` whose argument is not a literal


@dataclass(frozen=True)
class Import:
    """One imported module, or one name imported from a module."""

    module: str  # dotted, absolute
    name: str | None  # None for `import module`
    line: int
    functions: tuple[str, ...]  # the functions around it, outermost first

    @property
    def target(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Source:
    """One file of the package, by its dotted name, with what it imports."""

    dotted: str
    is_door: bool  # an `__init__.py`
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        parts = self.dotted.split(".")
        room = parts[1] if len(parts) > 1 else "__init__"
        return SAME_ROOM.get(room, room)


def find_imports(tree: ast.Module, package: str) -> Iterator[Import]:
    """Every import of a module; `package` is what relative ones start from."""

    def visit(node: ast.AST, functions: tuple[str, ...]) -> Iterator[Import]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions = (*functions, node.name)
            case ast.Lambda():
                functions = (*functions, "<lambda>")
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, None, node.lineno, functions)
            case ast.ImportFrom():
                base = package.split(".")[: None if node.level < 2 else 1 - node.level]
                prefix = ".".join(base) if node.level else ""
                module = ".".join(part for part in (prefix, node.module) if part)
                for alias in node.names:
                    yield Import(module, alias.name, node.lineno, functions)
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module")):
                # A computed name may be any module of ours, so it counts as ours.
                match node.args[:1]:
                    case [ast.Constant(value=str(module))] if not module.startswith("."):
                        yield Import(module, None, node.lineno, functions)
                    case _:
                        yield Import(PACKAGE, COMPUTED, node.lineno, functions)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, functions)

    return visit(tree, ())


def read_package(root: Path) -> list[Source]:
    sources = []
    for path in sorted(root.rglob("*.py")):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        is_door = parts[-1] == "__init__"
        dotted = ".".join(parts[:-1] if is_door else parts)
        package = dotted if is_door else dotted.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        sources.append(Source(dotted, is_door, tuple(find_imports(tree, package))))
    return sources


def is_ours(imported: Import) -> bool:
    return imported.module.split(".")[0] == PACKAGE


def target_room(imported: Import) -> str:
    """The room that an import of ours reaches into; `__init__` for the package door itself."""
    parts = imported.target.split(".")
    room = parts[1] if len(parts) > 1 else "__init__"
    return SAME_ROOM.get(room, room)


def rank(room: str) -> int:
    if room in LADDER:
        return LADDER.index(room)
    return len(LADDER) + (room == TOP)


def own_imports(sources: list[Source]) -> Iterator[tuple[Source, Import]]:
    """Imports of ours, by modules and to modules that the order binds."""
    for source in sources:
        if source.room in EXEMPT:
            continue
        for imported in source.imports:
            if is_ours(imported) and target_room(imported) not in (*LEAVES, COMPUTED):
                yield source, imported


def describe(source: Source, imported: Import, why: str) -> str:
    return f"{source.dotted}, line {imported.line}: imports {imported.target}: {why}"


def check_order(sources: list[Source]) -> Iterator[str]:
    for source, imported in own_imports(sources):
        room = target_room(imported)
        if room in EXEMPT:
            # Whoever enters a room enters by its door, which has the sockets filled first.
            if not (source.is_door and room == "_wiring"):
                yield describe(
                    source, imported, "rooms don't import the package door or the wiring"
                )
        elif rank(room) > rank(source.room):
            yield describe(source, imported, f"`{room}` comes after `{source.room}`")
        elif (source.room, room) in FORBIDDEN:
            yield describe(source, imported, f"`{source.room}` must not know `{room}`")


def check_public_cycles(sources: list[Source]) -> Iterator[str]:
    """Among the public rooms there is no fixed order, but there must be one."""
    graph: dict[str, set[str]] = {}
    for source, imported in own_imports(sources):
        room = target_room(imported)
        if room != source.room and rank(source.room) == rank(room) == len(LADDER):
            graph.setdefault(source.room, set()).add(room)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "public rooms import each other in a circle: " + " -> ".join(error.args[1])


def check_backends(sources: list[Source]) -> Iterator[str]:
    def backend(dotted: str) -> str | None:
        parts = dotted.split(".")
        return parts[2] if len(parts) > 2 and parts[1] == "backends" else None

    packages = {backend(s.dotted) for s in sources if s.is_door} - {None}
    for source, imported in own_imports(sources):
        mine, other = backend(source.dotted), backend(imported.target)
        if mine in packages and other in packages and mine != other:
            yield describe(source, imported, f"backend `{mine}` must not know `{other}`")


def check_foreign(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        for imported in source.imports:
            home = ONLY_IN.get(imported.module.split(".")[0])
            if home is not None and source.dotted != home and home + "." not in source.dotted + ".":
                yield describe(source, imported, f"only {home} may")


def check_inner(sources: list[Source]) -> Iterator[str]:
    """No import of ours inside a function, save for what loads the names of doors."""
    for source in sources:
        if source.room == "_wiring" or source.dotted == LAZY:
            continue
        for imported in source.imports:
            if imported.functions and is_ours(imported):
                yield describe(source, imported, f"inside `{'.'.join(imported.functions)}`")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def check_privacy(sources: list[Source]) -> Iterator[str]:
    """What starts with an underscore stays in its room: other rooms come in by the door."""
    for source, imported in own_imports(sources):
        if target_room(imported) == source.room:
            continue
        private = [part for part in imported.target.split(".")[2:] if is_private(part)]
        if private:
            yield describe(source, imported, f"`{private[0]}` is private to its room")


CHECKS = (
    check_order, check_public_cycles, check_backends, check_foreign, check_inner, check_privacy,
)  # fmt: skip


@pytest.fixture(scope="module")
def package() -> list[Source]:
    return read_package(ROOT)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_package(check, package):
    assert package, f"no source found under {ROOT}"
    assert list(check(package)) == []


# Each check catches what it is for: small packages with one fault each, and their innocent twins.
FAULTS = {
    "upward": ("check_order", {"ir/a.py": "from covector.trace import b"}),
    "upward, relative": ("check_order", {"ir/a.py": "from ..trace import b"}),
    "upward, deep relative": ("check_order", {"backends/cpu/a.py": "from ...api import b"}),
    "upward, by the package": ("check_order", {"ir/a.py": "from covector import ops"}),
    "upward, for types only": (
        "check_order",
        {"ir/a.py": "if TYPE_CHECKING:\n    from covector.ops import b"},
    ),
    "into a public room": ("check_order", {"api/jit.py": "import covector.numpy"}),
    "public to debug": ("check_order", {"numpy/a.py": "import covector.debug"}),
    "the door": ("check_order", {"numpy/a.py": "import covector"}),
    "the wiring": ("check_order", {"api/a.py": "from covector import _wiring"}),
    "compiler knows transforms": ("check_order", {"compiler/a.py": "import covector.transforms"}),
    "public circle": (
        "check_public_cycles",
        {"numpy/a.py": "import covector.random", "random/a.py": "import covector.numpy"},
    ),
    "backend to backend": (
        "check_backends",
        {
            "backends/cpu/__init__.py": "from ..reference import x",
            "backends/reference/__init__.py": "",
        },
    ),
    "llvmlite elsewhere": ("check_foreign", {"compiler/a.py": "import llvmlite.binding"}),
    "llvmlite beside cpu": ("check_foreign", {"backends/cpux.py": "from llvmlite import ir"}),
    "inside a function": ("check_inner", {"api/a.py": "def f():\n    from covector import ir"}),
    "inside a method": (
        "check_inner",
        {"api/a.py": "class A:\n    def f(self):\n        import covector.ir"},
    ),
    "computed, inside a function": (
        "check_inner",
        {"api/a.py": "import importlib\ndef f(n): return importlib.import_module(n)"},
    ),
    "in a door, computed": (
        "check_inner",
        {
            "numpy/__init__.py": "import importlib\n"
            "def __getattr__(name): return importlib.import_module(name)"
        },
    ),
    "upward, lazily": (
        "check_order",
        {"ir/__init__.py": "with lazily(globals()):\n    from covector.ops import b"},
    ),
    "private module": ("check_privacy", {"numpy/a.py": "from covector.lax._slicing import f"}),
    "private name": ("check_privacy", {"numpy/a.py": "from covector.lax import _f"}),
}
INNOCENT = {
    "downward": {"trace/a.py": "from covector.ir import b\nfrom .._base import c"},
    "itself": {"ir/a.py": "from .b import c\nfrom covector.ir._d import _e"},
    "public, one way": {
        "random/a.py": "import covector.numpy",
        "numpy/a.py": "import covector.lax",
    },
    "version": {"_base/a.py": "from covector.version import __version__"},
    "wiring": {"_wiring.py": "import covector.debug\ndef f():\n    import covector.api"},
    "lazy door": {
        "numpy/__init__.py": "from covector._base.lazy import lazily\n"
        "with lazily(globals()):\n    from covector.numpy._a import b\n"
        "from covector import _wiring"
    },
    "what loads for doors": {
        "_base/lazy.py": "from importlib import import_module\n"
        "def load(name): return import_module(name)"
    },
    "llvmlite at home": {"backends/cpu/a.py": "import llvmlite.binding as llvm"},
    "foreign, inside a function": {"api/a.py": "def f():\n    import numpy"},
    "dunder": {"api/a.py": "from covector.ir import __doc__"},
}


def write_package(folder: Path, files: dict[str, str]) -> list[Source]:
    root = folder / PACKAGE
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return read_package(root)


@pytest.mark.parametrize("case", FAULTS)
def test_catches(case, tmp_path):
    caught_by, files = FAULTS[case]
    sources = write_package(tmp_path, files)
    found = {check.__name__ for check in CHECKS if list(check(sources))}
    assert found == {caught_by}


@pytest.mark.parametrize("case", INNOCENT)
def test_lets_pass(case, tmp_path):
    sources = write_package(tmp_path, INNOCENT[case])
    assert [fault for check in CHECKS for fault in check(sources)] == []
