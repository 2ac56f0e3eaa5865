"""Compiled programs as bytes (*bundles*) and as callable code: what a new process needs of them.

A bundle is a small table and the code of a few object files (a program's driver, its kernels,
library code); it loads without emitting or parsing anything.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, final

from covector._base.digest import digest
from covector.backends.cpu import openblas
from covector.backends.cpu.link import CompiledModule, Loadable, link, load, loadable, unpacked
from covector.backends.cpu.target import Target, host

MAGIC: Final = b"covector-bundle-4\n"


@final
class CompiledKernel:
    """`void f(ptr buffers, ptr symbols)` at `address`; the code lives as long as this."""

    __slots__ = ("__weakref__", "_module", "address")

    def __init__(self, module: CompiledModule, name: str) -> None:
        self._module = module
        self.address = module.address(name)


@final
class CompiledProgram:
    """`void program(ptr buffers, ptr symbols)` at `address`, over inputs, outputs, arena.

    `arena`: bytes it needs.  `nanoseconds`: estimated time of a run.  `bundle`: itself as bytes,
    for `load_program`.  `meta`: what its maker wrote beside it.  The code lives as long as this.
    """

    __slots__ = ("_module", "address", "arena", "bundle", "code_bytes", "meta", "nanoseconds")

    def __init__(self, bundle: bytes, code: Loadable, given: Mapping[str, int]) -> None:
        table = code.table
        imports = [name for name in table["imports"] if name not in given]
        self._module = load(code, {**openblas.resolve(imports), **given})
        self.address = self._module.address(table["entry"])
        self.arena: int = table["arena"]
        self.meta: Any = table["meta"]
        self.nanoseconds: int = table["nanoseconds"]
        self.bundle = bundle
        self.code_bytes = len(code.code)


_linked: Final[weakref.WeakValueDictionary[str, CompiledKernel]] = weakref.WeakValueDictionary()


def linked_kernel(name: str, image: Callable[[], bytes]) -> CompiledKernel:
    """The kernel called `name`, linked once; `image` gives its object file."""
    found = _linked.get(name)
    if found is None:
        found = _linked.setdefault(name, CompiledKernel(link([image()], [name]), name))
    return found


def load_program(bundle: bytes, symbols: Mapping[str, int] | None = None) -> CompiledProgram | None:
    """A compiled program from its bundle; None if these bytes are not one of this version.

    `symbols`: as of `compile_program`.
    """
    if not bundle.startswith(MAGIC):
        return None
    code = unpacked(bundle[len(MAGIC) :])
    return None if code is None else CompiledProgram(bundle, code, symbols or {})


def program_key(text: str, target: Target | None = None) -> str:
    """A key for the disk cache: of whatever names a program, for this machine and version."""
    named = digest((target or host()).fingerprint)
    named.update(text.encode())
    return "p" + named.hexdigest()


def compiled_program(
    table: dict[str, Any], images: Iterable[bytes], symbols: Mapping[str, int]
) -> CompiledProgram:
    """The program of a table and object files."""
    code = loadable(images, [table["entry"]])
    code = Loadable({**table, **code.table}, code.code)
    return CompiledProgram(MAGIC + code.packed(), code, symbols)
