"""Object files of kernels and other functions: each made once, kept in memory and on disk.

They go by a digest of all that their machine code depends on, whatever names the program uses.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, final

from covector._base import log
from covector._base.digest import digest
from covector.backends.cpu import cache, workers
from covector.backends.cpu.assemble import assemble, module_text
from covector.backends.cpu.canonical import canonical
from covector.backends.cpu.crew import Crew
from covector.backends.cpu.emit.kernel import emit
from covector.backends.cpu.link import pool
from covector.backends.cpu.target import Target
from covector.compiler.loops.program import Kernel
from covector.runtime import threads

#: Object files kept in memory, for programs that share kernels.
KEPT: Final = 512

_lock = threading.Lock()
_images: Final[OrderedDict[str, bytes]] = OrderedDict()


@final
class Objects:
    """The object files of one program.  Within `with`, whose end waits for them, they are compiled
    by a crew while the program's driver is being written."""

    __slots__ = ("_crew", "_disk", "_images", "_pooled", "_target")

    def __init__(self, target: Target) -> None:
        self._target = target
        self._disk = cache.current()  # by the options of this thread, which the crew does not see
        # What is shown is shown in order.
        self._crew = Crew(1 if log.wanted(4) else threads.num_threads())
        self._images: dict[str, bytes] = {}
        self._pooled = False  # whether the workers' code has been asked for

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._crew.__exit__(kind, error, trace)

    def images(self) -> list[bytes]:
        """All, the program's own first."""
        return [self._images[name] for name in sorted(self._images)]

    def own(self, text: str, simplify: bool, quick: bool) -> None:
        """Has a module compiled that is this program's alone."""
        self._images[""] = b""

        def compiled() -> None:
            self._images[""] = assemble(text, self._target, simplify, quick)

        self._start(compiled, text)

    def kernel(self, kernel: Kernel) -> str:
        """The name of a kernel's function, which will be there."""
        name = kernel_name(kernel, self._target)
        self._need(name, name, lambda: kernel_text(kernel, self._target, name))
        return name

    def code(self, name: str, make: Callable[[], str], quick: bool = False) -> None:
        """Makes sure that the function `name` is there; `make` gives its module's text."""
        self._need(name, code_key(name, self._target), make, quick)

    def _need(self, name: str, key: str, make: Callable[[], str], quick: bool = False) -> None:
        if name in self._images:
            return
        found = _known(key)
        self._images[name] = found or b""
        if found is None:
            text = make()

            def compiled() -> None:
                self._images[name] = _made(key, text, self._target, quick, self._disk)

            self._start(compiled, text)

    def _start(self, task: Callable[[], None], text: str) -> None:
        if not self._pooled and f"@{workers.SYMBOL}(" in text:
            self._pooled = True
            self._crew.start(lambda: pool(self._disk))
        self._crew.start(task)


def kernel_name(kernel: Kernel, target: Target) -> str:
    """The name of a kernel's function: a digest of all that its machine code depends on."""
    named = digest(target.fingerprint)
    named.update(canonical(kernel))
    return "k" + named.hexdigest()[:40]


def kernel_text(kernel: Kernel, target: Target, name: str) -> str:
    """The module of a kernel."""
    text, declared = emit(kernel, target, name)
    return module_text(target, [text], declared)


def code_key(name: str, target: Target) -> str:
    """The key of a library function's object code."""
    return "c" + digest(f"{target.fingerprint}\n{name}").hexdigest()


def image(kernel: Kernel, name: str, target: Target) -> bytes:
    """The object file of a kernel: from memory, else from disk, else made now."""
    found = _known(name)
    return found or _made(name, kernel_text(kernel, target, name), target, False, cache.current())


def _known(key: str) -> bytes | None:
    if log.wanted(4):  # then it is made again, to be looked at
        return None
    with _lock:
        found = _images.get(key)
        if found is not None:
            _images.move_to_end(key)
            return found
    found = cache.lookup(key)
    if found is not None:
        _keep(key, found)
    return found


def _made(key: str, text: str, target: Target, quick: bool, disk: cache.DiskCache | None) -> bytes:
    made = assemble(text, target, quick=quick)
    if disk is not None:
        disk.store(key, made)
    _keep(key, made)
    return made


def _keep(key: str, made: bytes) -> None:
    with _lock:
        _images[key] = made
        while len(_images) > KEPT:
            _images.popitem(last=False)
