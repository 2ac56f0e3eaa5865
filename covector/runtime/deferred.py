"""Long programs run behind the caller's back: another thread computes what is in their results.

One thread runs them in the order of their calls; whoever wants elements waits for them.  Only
programs without effects are deferred, so what calls Python, prints or fails does so when called, in
order.  Short programs run at once: handing over costs more than they do.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, final

from covector._base.config import config
from covector.runtime import array as arrays
from covector.runtime.array import Array
from covector.runtime.backend import NativeCode
from covector.runtime.pool import physical_memory

#: Nanoseconds, as estimated, from which a program is deferred: handing over costs some 50 000.
LONG: Final = 4_000_000
#: Programs in flight: a caller that is further ahead waits, since their arguments take memory.
MOST: Final = 32
#: Bytes that there are, for all.
_MEMORY: Final = physical_memory()
#: Seconds of one wait: on Windows a wait without end is not interrupted by the keyboard.
_TICK: Final = 1.0


def is_long(code: NativeCode) -> bool:
    """Whether calls of this code are deferred where that is allowed."""
    return code.nanoseconds >= LONG and code.after is None


def run(executable: Any, args: Sequence[Array], *by: object) -> list[Array]:
    """`executable.run(args, *by)`; of a long program, without waiting for its results.

    by: of an executable that takes over arguments (`Donating`), what those are told.
    """
    code = getattr(executable, "code", None)
    if code is not None and is_long(code) and config.cpu_enable_async_dispatch:
        made = executor.submit(executable, args, *by)
        if made is not None:
            return made
    return executable.run(args, *by)


@final
class _Task:
    """A program, its arguments, and what stands for the memory of its results.

    by: as of `run`.  A program that writes to arguments cannot be begun a second time.
    """

    __slots__ = ("args", "by", "done", "executable", "results")

    def __init__(
        self, executable: Any, args: list[Array], by: Sequence[object], waiting: Executor
    ) -> None:
        self.executable, self.args, self.by = executable, args, by
        self.done = threading.Event()
        self.results = [arrays.Pending(waiting, self.done) for _ in executable.out_avals]

    def run(self, kept: type[BaseException]) -> None:
        """Runs it; its results have their memory then, or say why not: exceptions of type `kept`.

        After any other one it can be run again.
        """
        found: list[Any]
        try:
            found = [arrays.memory(x) for x in self.executable.run(self.args, *self.by)]
        except kept as error:  # whoever uses a result is to see it
            found = [arrays.Failed(error)] * len(self.results)
        for pending, buffer in zip(self.results, found, strict=True):
            pending.result = buffer
        self.done.set()


@final
class Executor:
    """The thread that runs deferred programs; started by the first."""

    def __init__(self) -> None:
        # A signal's handler may run anywhere, so also where its own thread holds the lock.
        self.lock = threading.RLock()
        self.wanted, self.less = threading.Condition(self.lock), threading.Condition(self.lock)
        self.tasks: deque[_Task] = deque()
        self.closed = False
        self.thread: threading.Thread | None = None
        #: The thread that runs a task now; 0 for none.
        self.runner = 0
        #: The thread whose programs are in flight.
        self.owner = 0

    def submit(self, executable: Any, args: Sequence[Array], *by: object) -> list[Array] | None:
        """The results of a program to come; None if the caller should rather run it itself.

        So it should while it runs one, or the executor serves other threads (several that compute
        have the CPUs busy as it is), for an argument that is not there, and where there will be no
        memory.
        """
        mine = threading.get_ident()
        held: list[Array] = []
        for x in args:  # what others do to the arrays from now on does not matter
            if type(x) is not Array:  # a tracer that has leaked
                return None
            buffer = x.buffer
            if isinstance(buffer, (arrays.Deleted, arrays.Failed, arrays.Watched)):
                return None
            held.append(arrays.wrap(x.aval, buffer))
        needed = executable.code.arena + sum(a.nbytes for a in executable.out_avals)
        if needed > _MEMORY:
            return None
        task = _Task(executable, held, by, self)
        with self.lock:
            if self.closed or self.runner == mine or (self._busy() and self.owner != mine):
                return None
            if self.thread is not None and self.thread.ident == mine:
                return None
            while len(self.tasks) >= MOST:
                self.less.wait(_TICK)
            if self.closed or (self.thread is None and not self._start()):
                return None
            self.owner = mine
            for n in executable.donated if by else ():
                arrays.replace_buffer(args[n], arrays.Deleted(*by))
            self.tasks.append(task)
            self.wanted.notify()
        made = zip(executable.out_avals, task.results, strict=True)
        return [arrays.wrap(aval, pending) for aval, pending in made]

    def wait_for(self, done: threading.Event) -> None:
        """Returns when `done` is set by a task.

        As long as the executor's thread has not come to it, who waits runs what is to be run: a
        caller that waits at once has its results as soon as if nothing were deferred.
        """
        while not done.is_set():
            before = self.runner
            if self._run_first():
                continue
            if before == threading.get_ident():  # a finaliser, in the middle of the program
                raise RuntimeError("the result of a program is wanted while that program runs")
            done.wait(_TICK)

    def _run_first(self) -> bool:
        """Runs the first task in this thread, if nobody else runs one; whether it did.

        What interrupts it leaves the task to be done; so not one that cannot be begun again.
        """
        mine, task, before = threading.get_ident(), None, 0
        try:
            with self.lock:
                before = self.runner
                if not self.tasks or before not in (0, mine) or (self.tasks[0].by and not before):
                    return False
                self.runner = mine
                task = self.tasks.popleft()
            task.run(Exception)
        except BaseException:
            if task is not None:
                with self.lock:
                    self.tasks.appendleft(task)
            raise
        finally:
            with self.lock:
                if self.runner == mine:
                    self.runner = before
                self.less.notify_all()
                if self.tasks:
                    self.wanted.notify()
        return True

    def drain(self) -> None:
        """Returns when nothing is in flight."""
        with self.lock:
            while self._busy() and self.runner != threading.get_ident():
                self.less.wait(_TICK)

    def close(self) -> None:
        """Ends deferring, at the end of the process: from now on callers run programs."""
        with self.lock:
            self.closed = True
        self.drain()

    def before_fork(self) -> None:
        """A child has no such thread, so nothing may be in flight; nor may the lock be taken."""
        self.lock.acquire()
        self.drain()

    def after_fork_in_parent(self) -> None:
        """Programs may come again."""
        self.lock.release()

    def _busy(self) -> bool:
        return self.runner != 0 or bool(self.tasks)

    def _start(self) -> bool:
        """Starts the thread; False where the system, or the interpreter's end, has none."""
        thread = threading.Thread(target=self._serve, name="covector-deferred", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self.thread = thread
        return True

    def _serve(self) -> None:
        while True:
            with self.lock:
                while self.runner or not self.tasks:
                    self.wanted.wait()
                self.runner = threading.get_ident()
                task = self.tasks.popleft()
            task.run(BaseException)
            del task  # it must not hold memory while we wait for the next
            with self.lock:
                self.runner = 0
                self.less.notify_all()


executor: Executor = Executor()


def _after_fork_in_child() -> None:
    global executor
    executor = Executor()


atexit.register(lambda: executor.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: executor.before_fork(),
        after_in_parent=lambda: executor.after_fork_in_parent(),
        after_in_child=_after_fork_in_child,
    )
