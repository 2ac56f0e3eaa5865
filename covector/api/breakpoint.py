"""`debug.breakpoint`: a small debugger at the user's line, with the values of the running program.

The frames are those of the call, when the function was traced; tracers in their variables are
arguments of a debug callback, which shows the frames with the values.
"""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
import traceback
from typing import Any, final

from covector import tree
from covector._base.named_tuple import NamedTuple
from covector._base.source import is_internal
from covector.api.callbacks import debug_callback
from covector.trace.tracer import Tracer

#: Lines shown around the current one.
CONTEXT = 5


class Frame(NamedTuple):
    """A frame of the user's program, when it was traced."""

    filename: str
    lineno: int
    function: str
    names: dict[str, Any]
    variables: dict[str, Any]

    def title(self) -> str:
        """File, line and function."""
        return f"{self.filename}({self.lineno}) {self.function}"

    def context(self, around: int = CONTEXT) -> list[str]:
        """The lines around the current one, which is marked."""
        lines = linecache.getlines(self.filename)
        first = max(self.lineno - around, 1)
        return [
            f"{'->' if n == self.lineno else '  '} {n:4} {lines[n - 1].rstrip()}"
            for n in range(first, min(self.lineno + around, len(lines)) + 1)
        ]


def debug_breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> Any:
    """Stops the program here each time that it gets here, and asks for commands at the terminal.

    The commands: `help`, `p` and `pp` (print an expression of the variables), `u` and `d` (to the
    caller and back), `w` or `bt` (where), `l` (the lines around), `a` (the variables), `c`
    (continue), `q` (quit).  Of a jitted function the variables have the values of this run.  Where
    the input ends, or there is none, the program continues.

    Args:
      backend: 'cli' or None.
      filter_frames: whether to leave out frames that are not the user's.
      num_frames: how many frames to keep; None: all.
      ordered: as of `debug.callback`.
      token: returned as it is.
      kwargs: `stdin` and `stdout`, files to use in place of the terminal.

    Raises ValueError for another backend.

    >>> import covector as cv, io, sys
    >>> @cv.jit
    ... def f(x):
    ...     y = x * 2
    ...     cv.debug.breakpoint(stdin=io.StringIO("p y\\nc\\n"), stdout=sys.stdout)
    ...     return y
    >>> _ = f(3.0)
    Entering jdb:
    (jdb) 6.0
    (jdb)
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: backend must be 'cli' or None; got {backend!r}")
    frames = _frames(filter_frames, num_frames)
    leaves, structure = tree.flatten([f.variables for f in frames])
    traced = [isinstance(x, Tracer) and x.owner.alive for x in leaves]

    def stop(*values: Any) -> None:
        rest = iter(values)
        found = [next(rest) if t else x for x, t in zip(leaves, traced, strict=True)]
        variables = tree.unflatten(structure, found)
        filled = [f._replace(variables=v) for f, v in zip(frames, variables, strict=True)]
        _Debugger(filled, **kwargs).run()

    debug_callback(stop, *(x for x, t in zip(leaves, traced, strict=True) if t), ordered=ordered)
    return token


def _frames(filter_frames: bool, count: int | None) -> list[Frame]:
    """The frames of the caller, innermost first."""
    found: list[Frame] = []
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and (count is None or len(found) < count):
        code = frame.f_code
        if not filter_frames or not is_internal(code.co_filename):
            # Module-level variables are found among the globals.
            own = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
            found.append(
                Frame(code.co_filename, frame.f_lineno, code.co_qualname, frame.f_globals, own)
            )
        frame = frame.f_back
    return found


@final
class _Debugger(cmd.Cmd):
    """Commands over frames."""

    prompt = "(jdb) "

    def __init__(self, frames: list[Frame], stdin: Any = None, stdout: Any = None) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.frames, self.at = frames, 0
        self.use_rawinput = stdin is None

    def run(self) -> None:
        """Until the user continues."""
        if not self.stdin:  # a process without a terminal
            return
        print("Entering jdb:", file=self.stdout)
        self.cmdloop()

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(line, file=self.stdout)

    def _value(self, expression: str) -> Any:
        frame = self.frames[self.at]
        # One scope, so that comprehensions see the variables.
        return eval(expression, {**frame.names, **frame.variables})

    def _print(self, expression: str, form: Any) -> None:
        try:
            self._say(form(self._value(expression)))
        except Exception as error:
            self._say(*traceback.format_exception_only(error))

    def do_p(self, arg: str) -> None:
        """p expression: prints its value."""
        self._print(arg, str)

    def do_pp(self, arg: str) -> None:
        """pp expression: prints its value, over several lines if it is long."""
        self._print(arg, pprint.pformat)

    def do_u(self, arg: str) -> None:
        """u(p): goes to the caller."""
        self._go(1, "the outermost frame")

    def do_d(self, arg: str) -> None:
        """d(own): goes back to what was called."""
        self._go(-1, "the innermost frame")

    def _go(self, by: int, end: str) -> None:
        if not 0 <= self.at + by < len(self.frames):
            self._say(f"This is {end}.")
            return
        self.at += by
        self.do_l("")

    def do_w(self, arg: str) -> None:
        """w(here), bt: lists the frames, the innermost last."""
        for n in reversed(range(len(self.frames))):
            self._say(f"{'>' if n == self.at else ' '} {self.frames[n].title()}")

    def do_l(self, arg: str) -> None:
        """l(ist): shows the lines around the current one."""
        frame = self.frames[self.at]
        self._say(f"> {frame.title()}", *frame.context())

    def do_a(self, arg: str) -> None:
        """a(rgs): lists the variables of the frame."""
        for name, value in self.frames[self.at].variables.items():
            self._say(f"{name} = {value!r}")

    def do_c(self, arg: str) -> bool:
        """c(ontinue): goes on."""
        return True

    def do_EOF(self, arg: str) -> bool:
        """Goes on."""
        self._say("")
        return True

    def do_q(self, arg: str) -> None:
        """q(uit), exit: ends the program."""
        sys.exit(0)

    do_up, do_down, do_where, do_bt, do_list = do_u, do_d, do_w, do_w, do_l
    do_args, do_cont, do_continue, do_quit, do_exit = do_a, do_c, do_c, do_q, do_q

    def emptyline(self) -> bool:
        """Asks again."""
        return False
