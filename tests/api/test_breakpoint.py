"""`debug.breakpoint`: commands over the frames of the call, with the values of the run."""

from __future__ import annotations

import io
from typing import Any

import pytest

import covector as cv


def session(commands: str, fun: Any, *args: Any) -> str:
    """What the debugger says to these commands; `fun` passes its keywords on."""
    out = io.StringIO()
    fun(*args, stdin=io.StringIO(commands), stdout=out)
    return out.getvalue()


def outer(x: Any, jitted: bool = True, **files: Any) -> Any:
    shift = 10

    def inner(y: Any) -> Any:
        z = y * 2
        cv.debug.breakpoint(**files)  # here
        return z + shift

    return (cv.jit(inner) if jitted else inner)(x)


@pytest.mark.parametrize("jitted", [False, True])
def test_values_of_the_run(jitted: bool) -> None:
    said = session("p z\npp [y, shift]\np nonsense\nc\n", outer, 3.0, jitted)
    assert "6.0" in said
    assert "10]" in said
    assert "NameError" in said


def test_frames() -> None:
    said = session("bt\nl\nu\np x\nd\nd\na\n", outer, 3.0)
    assert "test_breakpoint.py" in said
    assert "outer.<locals>.inner" in said
    assert "->" in said
    assert "# here" in said
    assert "3.0" in said
    assert "This is the innermost frame." in said
    assert "z = Array(6." in said


def test_each_time_and_each_example() -> None:
    out = io.StringIO()

    def body(i: Any, x: Any) -> Any:
        cv.debug.breakpoint(stdin=io.StringIO("p i\n" * 9), stdout=out, num_frames=1)
        return x + 1

    cv.lax.fori_loop(0, 2, body, 0)
    assert out.getvalue().count("Entering jdb:") == 2
    out.truncate(0)
    cv.vmap(lambda x: body(x, x))(cv.numpy.arange(3))
    assert out.getvalue().count("Entering jdb:") == 3


def test_it_goes_on_where_the_input_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert float(cv.grad(lambda x: outer(x, stdin=io.StringIO("")))(1.0)) == 2.0
    assert "Entering jdb:" in capsys.readouterr().out


def test_quit() -> None:
    with pytest.raises(SystemExit):
        session("q\n", outer, 3.0, False)


def test_another_backend() -> None:
    with pytest.raises(ValueError, match="backend must be 'cli' or None; got 'web'"):
        cv.debug.breakpoint(backend="web")
    assert cv.debug.breakpoint(token=3, stdin=io.StringIO(""), stdout=io.StringIO()) == 3
