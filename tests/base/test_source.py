"""The user's own line, and tracebacks without internal frames."""

import _thread
import contextlib
import copy
import pickle
import sys
import threading
import traceback
import types
import warnings

import numpy as np
import pytest

from covector._base import source
from covector._base.boundary import api_boundary, filter_traceback
from covector._base.config import config
from covector._base.source import Source, user_frame, user_frames, user_stacklevel

ROOT = source._ROOT


def internal(text, name="internal_function", **names):
    """A function whose code claims to be a file of Covector."""
    namespace = dict(names)
    exec(compile(text, ROOT + "made_up.py", "exec"), namespace)
    return namespace[name]


def test_user_frame_skips_internal_files():
    deep = internal(
        "def internal_function(n):\n    return internal_function(n - 1) if n else user_frame()\n",
        user_frame=user_frame,
    )
    here = user_frame()
    found = deep(3)
    assert isinstance(found, Source)
    assert found.filename == __file__
    assert found.function == "test_user_frame_skips_internal_files"
    assert found.lineno == here.lineno + 1
    assert found.text == "found = deep(3)"
    assert repr(found) == f"test_source.py:{found.lineno} ({found.function})"
    assert found != here
    assert here == here
    assert len({found, here}) == 2


def test_source_pickles_as_words():
    here = user_frame()
    restored = pickle.loads(pickle.dumps(here))
    assert repr(restored) == repr(here)
    assert restored.text == here.text
    assert repr(copy.copy(here)) == repr(here)


def test_user_frames_are_innermost_first():
    def inner():
        return user_frames(2)

    frames = inner()
    assert [frame.function.rpartition(".")[2] for frame in frames] == [
        "inner",
        "test_user_frames_are_innermost_first",
    ]
    assert len(user_frames()) > 2


def test_no_user_frame():
    results = []
    done = threading.Event()
    run = internal(
        "def internal_function():\n    results.append(user_frame())\n    done.set()\n",
        user_frame=user_frame,
        results=results,
        done=done,
    )
    _thread.start_new_thread(run, ())  # nothing of ours below it on the stack
    assert done.wait(10)
    assert results == [None]


def test_exclusions(tmp_path):
    package = tmp_path / "library"
    package.mkdir()
    file = package / "code.py"
    file.write_text("")
    namespace = {"user_frame": user_frame}
    exec(compile("def call():\n    return user_frame()", str(file), "exec"), namespace)
    assert namespace["call"]().filename == str(file)
    try:
        source.register_exclusion(str(package))
        assert namespace["call"]().filename == __file__
    finally:
        source._excluded.pop()
        source.forget()


def test_library_frames_are_not_the_users():
    class Array:
        def sum(self, *args, **kwargs):
            return user_frame(2)

    # Python's library and NumPy stand between the call and this method.
    assert np.sum(Array()).function == "test_library_frames_are_not_the_users"
    with contextlib.ExitStack() as stack:
        callback = internal("def internal_function(out):\n    out.append(user_frame())",
                            user_frame=user_frame)  # fmt: skip
        out = []
        stack.callback(callback, out)
    assert out[0].function == "test_library_frames_are_not_the_users"


def test_warnings_name_the_users_line():
    warn = internal(
        "def internal_function():\n"
        "    return warn_deeper()\n"
        "def warn_deeper():\n"
        "    warnings.warn('careful', UserWarning, stacklevel=level())\n",
        warnings=warnings,
        level=user_stacklevel,
    )
    with pytest.warns(UserWarning, match="careful") as caught:
        warn()
    assert caught[0].filename == __file__


def boom(x):
    raise ValueError(f"bad {x}")


def make_public():
    public = internal(
        "def internal_function(f, x):\n"
        "    return middle(f, x)\n"
        "def middle(f, x):\n"
        "    return f(x)\n",
    )
    return api_boundary(public)


def frames_of(error):
    return [f.name for f in traceback.extract_tb(error.__traceback__)]


def failing(public, mode):
    with config.scoped(traceback_filtering=mode):
        try:
            public(boom, 3)
        except ValueError as error:
            return error
    raise AssertionError("no error")


@pytest.mark.parametrize("mode", ["auto", "quiet_remove_frames", "remove_frames"])
def test_internal_frames_are_removed(mode):
    error = failing(make_public(), mode)
    assert frames_of(error) == ["failing", "boom"]
    notes = getattr(error, "__notes__", [])
    assert (len(notes) == 1) == (mode == "remove_frames")


def test_one_note_for_nested_boundaries():
    public = make_public()
    outer = api_boundary(lambda f, x: public(f, x))
    assert len(failing(outer, "remove_frames").__notes__) == 1


def test_off_shows_everything():
    error = failing(make_public(), "off")
    assert frames_of(error) == ["failing", "call", "internal_function", "middle", "boom"]


def test_tracebackhide_marks_the_frames():
    error = failing(make_public(), "tracebackhide")
    entry, hidden = error.__traceback__, {}
    while entry is not None:
        hidden[entry.tb_frame.f_code.co_name] = "__tracebackhide__" in entry.tb_frame.f_locals
        entry = entry.tb_next
    assert hidden == {
        "failing": False, "call": True, "internal_function": True, "middle": True, "boom": False,
    }  # fmt: skip


def test_auto_hides_in_ipython(monkeypatch):
    fake = types.SimpleNamespace(get_ipython=lambda: object())
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert len(frames_of(failing(make_public(), "auto"))) == 5


def test_errors_made_by_us_end_at_the_users_line():
    public = api_boundary(internal("def internal_function():\n    raise TypeError('no')\n"))
    with pytest.raises(TypeError, match="no") as caught:
        public()
    assert frames_of(caught.value)[-1] == "test_errors_made_by_us_end_at_the_users_line"


def test_boundary_passes_values_and_looks_like_the_function():
    @api_boundary
    def add(x, *, y=1):
        """Adds."""
        return x + y

    assert add(1, y=2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")


def test_causes_and_groups_are_filtered():
    public = internal(
        "def internal_function(f):\n"
        "    try:\n"
        "        f(1)\n"
        "    except ValueError as cause:\n"
        "        raise ExceptionGroup('many', [cause]) from cause\n",
    )
    with pytest.raises(ExceptionGroup) as caught:
        api_boundary(public)(boom)
    error = caught.value
    assert frames_of(error) == ["test_causes_and_groups_are_filtered"]
    assert frames_of(error.__cause__) == frames_of(error.exceptions[0]) == ["boom"]


def test_filter_without_traceback():
    filter_traceback(ValueError())
