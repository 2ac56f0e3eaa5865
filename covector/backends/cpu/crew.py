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
class Crew:
    """Up to `size` threads, the caller's own included, which works once it waits.

    Used in a `with`, whose end waits for all tasks.  The first error is raised there; tasks that
    have not been begun by then are dropped.  Of size one it does each task at once.
    """

    __slots__ = ("_closed", "_errors", "_size", "_tasks", "_threads", "_todo")

    def __init__(self, size: int) -> None:
        self._size: Final = size
        self._tasks: deque[Callable[[], Any]] = deque()
        self._todo = threading.Condition()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._todo:
            self._closed = True
            if error is not None:
                self._tasks.clear()
            self._todo.notify_all()
        try:
            self._work()
        finally:  # also where the user interrupts this thread
            self._tasks.clear()
            for thread in self._threads:
                thread.join()
        if error is None and self._errors:
            raise self._errors[0]

    def start(self, task: Callable[[], Any]) -> None:
        """Has `task` done, by the end.  A single one needs no thread."""
        if self._size == 1:
            task()
            return
        if self._errors:
            return
        with self._todo:
            self._tasks.append(task)
            self._todo.notify()
        if len(self._tasks) > 1 and len(self._threads) < self._size - 1:
            thread = threading.Thread(target=self._work, name="covector compiles", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException as error:  # raised where the crew ends
                self._errors.append(error)
                self._tasks.clear()

    def _next(self) -> Callable[[], Any] | None:
        """The next task; None when there will be no more."""
        with self._todo:
            while not self._tasks:
                if self._closed:
                    return None
                self._todo.wait()
            return self._tasks.popleft()
