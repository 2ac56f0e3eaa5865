"""A crew: threads that do tasks while whoever hands them out prepares the next ones.

They are this call's own and gone when it returns, so that a process which compiles nothing has
none.  Tasks are to be such as leave the interpreter to others: LLVM compiling a module, say.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final


@final
class _Tasks:
    """What is to be done, for whoever has time."""

    __slots__ = ("_closed", "_tasks", "_todo", "errors")

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], Any]] = deque()
        self._todo = threading.Condition()
        self._closed = False
        self.errors: list[BaseException] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: Callable[[], Any]) -> None:
        with self._todo:
            self._tasks.append(task)
            self._todo.notify()

    def close(self, drop: bool) -> None:
        """There will be no more; `drop`: nor are those to be done that nobody has begun."""
        with self._todo:
            self._closed = True
            if drop:
                self._tasks.clear()
            self._todo.notify_all()

    def work(self) -> None:
        """Does tasks until there will be no more."""
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException as error:  # raised where the crew ends
                self.errors.append(error)
                self._tasks.clear()

    def _next(self) -> Callable[[], Any] | None:
        with self._todo:
            while not self._tasks:
                if self._closed:
                    return None
                self._todo.wait()
            return self._tasks.popleft()


@final
class Crew:
    """Up to `size` threads, the caller's own included, which works once it waits.

    Used in a `with`, whose end waits for all tasks.  The first error is raised there; tasks that
    have not been begun by then are dropped.  Of size one it does each task at once.
    """

    __slots__ = ("_size", "_tasks", "_threads")

    def __init__(self, size: int) -> None:
        self._size: Final = size
        self._tasks = _Tasks()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        tasks = self._tasks
        tasks.close(drop=error is not None)
        try:
            tasks.work()
        finally:  # also where the user interrupts this thread
            tasks.close(drop=True)
            for thread in self._threads:
                thread.join()
        if error is None and tasks.errors:
            raise tasks.errors[0]

    def __del__(self) -> None:
        # Who is interrupted on the way into or out of the `with` leaves no thread behind either.
        self._tasks.close(drop=True)

    def start(self, task: Callable[[], Any]) -> None:
        """Has `task` done, by the end.  A single one needs no thread."""
        tasks = self._tasks
        if self._size == 1:
            task()
            return
        if tasks.errors:
            return
        tasks.add(task)
        if len(tasks) > 1 and len(self._threads) < self._size - 1:
            thread = threading.Thread(target=tasks.work, name="covector compiles", daemon=True)
            thread.start()
            self._threads.append(thread)
