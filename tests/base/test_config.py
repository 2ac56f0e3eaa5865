"""Options: reading, updating, scoped overrides, keys, hooks, environment."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from covector._base import config as module
from covector._base.config import Config, PerConfig, TraceKey, config, make_user_context
from covector._base.options import INERT, NOT_YET, OPTIONS, Option


@pytest.fixture(autouse=True)
def restored():
    """Every test leaves the process-wide values as they were."""
    before = {option.name: getattr(config, option.name) for option in config}
    yield
    for name, value in before.items():
        if getattr(config, name) != value:
            config.update(name, value)
    assert config.overriding_threads == 0
    assert config.__dict__ == {}


def in_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


def test_every_option_has_its_default_and_takes_it():
    for option in (*OPTIONS, *INERT):
        assert option.check(option.default) == option.default
        assert option.doc
        assert config.read(option.name) == config.read(option.jax_name)
        assert getattr(config, option.jax_name) == getattr(config, option.name)


def test_an_option_says_so_if_nothing_acts_on_it():
    """What reads an option reads it as `config.name`, somewhere in the package."""
    own = {"config.py", "options.py"}
    files = [p for p in Path(module.__file__).parents[1].rglob("*.py") if p.name not in own]
    source = "\n".join(p.read_text(encoding="utf-8") for p in files)
    for option in OPTIONS:
        acted_on = re.search(rf"\bconfig\.{option.name}\b|config, \"{option.name}\"", source)
        assert (option.name in NOT_YET) == (acted_on is None), option.name
        assert option.doc.endswith("Not acted on yet.") == (acted_on is None)
    assert set(NOT_YET) <= {option.name for option in OPTIONS}


def test_update_by_any_name():
    for name in ("enable_x64", "jax_enable_x64", "x64_enabled"):
        config.update(name, True)
        assert config.enable_x64 is config.jax_enable_x64 is config.x64_enabled is True
        assert in_thread(lambda: config.enable_x64) is True
        config.update("enable_x64", False)
    assert config.values["jax_enable_x64"] is False


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("enable_x64", "false", TypeError, "'enable_x64' takes True or False; got 'false' of type"),
        ("enable_x64", 2, ValueError, "takes True or False"),
        ("enable_x64", None, TypeError, "got None of type NoneType"),
        ("numpy_rank_promotion", "yes", ValueError, "one of 'allow', 'warn', 'raise'; got 'yes'"),
        ("numpy_rank_promotion", 3, TypeError, "numpy_rank_promotion"),
        ("default_matmul_precision", "lots", ValueError, "F64_F64_F64' or None; got 'lots'"),
        ("debug", 6, ValueError, "an integer from 0 to 5; got 6"),
        ("debug", True, TypeError, "an integer from 0 to 5"),
        ("num_cpu_devices", 1.5, TypeError, "an integer of at least -1"),
        ("default_device", [], TypeError, "a device, the name of a platform, or None"),
        ("compilation_cache_dir", 3, TypeError, "a string or None"),
    ],
)
def test_wrong_values(name, value, error, message):
    before = config.read(name)
    with pytest.raises(error, match=message):
        config.update(name, value)
    with pytest.raises(error, match=message):
        config.scoped(**{name: value})
    assert config.read(name) == before


def test_unknown_names():
    for use in (
        lambda: config.update("enable_x46", True),
        lambda: config.read("enable_x46"),
        lambda: config.scoped(enable_x46=True),
    ):
        with pytest.raises(AttributeError, match="no option 'enable_x46'; did you mean 'enable_x6"):
            use()
    with pytest.raises(AttributeError):
        config.enable_x46  # noqa: B018
    with pytest.raises(AttributeError, match=r"config.update\('enable_x64', ...\)"):
        config.enable_x64 = True


def test_scopes_nest_and_end_with_errors():
    with config.scoped(enable_x64=True, debug=2):
        assert (config.enable_x64, config.debug) == (True, 2)
        with config.scoped(enable_x64=False):
            assert (config.enable_x64, config.debug) == (False, 2)
        assert config.enable_x64
        with pytest.raises(KeyError), config.scoped(debug=3):
            raise KeyError
        assert config.debug == 2
    assert (config.enable_x64, config.debug) == (False, 0)


def test_scopes_are_of_one_thread():
    with config.scoped(enable_x64=True):
        assert in_thread(lambda: config.enable_x64) is False
        assert in_thread(lambda: config.current_key) is not config.current_key


def test_a_scope_can_be_shared_by_threads():
    scope = config.scoped(enable_x64=True)
    inside, leave = threading.Barrier(3), threading.Barrier(3)
    seen = []

    def work():
        with scope:
            inside.wait()
            seen.append(config.enable_x64)
            leave.wait()
        seen.append(config.enable_x64)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    assert config.enable_x64 is False
    assert config.overriding_threads == 2
    leave.wait()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [False, False, True, True]


def test_a_scope_ends_in_its_thread():
    scope = config.scoped(debug=1)
    with scope:

        def leave():
            with pytest.raises(RuntimeError, match="scope of debug is left by a thread that did"):
                scope.__exit__(None, None, None)
            return True

        assert in_thread(leave)
        assert config.debug == 1


def test_context_managers_of_single_options():
    with module.enable_x64():
        assert config.enable_x64
        assert module.enable_x64.value
    with module.enable_x64(False), module.numpy_rank_promotion("raise"):
        assert config.numpy_rank_promotion == "raise"
    with module.transfer_guard("disallow"):
        assert config.transfer_guard_device_to_host == "disallow"
    with module.disable_jit(), module.checking_leaks():
        assert config.disable_jit
        assert config.check_tracer_leaks
    with pytest.raises(TypeError, match=r"numpy_rank_promotion\(\) needs the new value"):
        module.numpy_rank_promotion()

    @module.enable_x64(True)
    def wide():
        """Documented."""
        return config.enable_x64

    assert wide() is True
    assert wide.__doc__ == "Documented."
    assert config.enable_x64 is False


def test_trace_keys_are_interned_and_follow_traced_options():
    base = config.current_key
    assert config.trace_key() is base
    with config.scoped(enable_x64=True):
        wide = config.current_key
        assert wide is not base
        assert wide.differences(base) == {"enable_x64": (True, False)}
        with config.scoped(debug_nans=True), config.scoped(debug_nans=False):
            assert config.current_key is wide
        with config.scoped(enable_x64=False):
            assert config.current_key is base
    with config.scoped(log_compiles=True, debug=3):
        assert config.current_key is base
    config.update("enable_x64", True)
    assert config.current_key is wide
    assert isinstance(wide, TraceKey)
    assert in_thread(lambda: config.current_key) is wide


def test_values_that_are_equal_but_not_the_same_have_different_keys():
    context = make_user_context(0)
    keys = set()
    for value in (1, True, 1.0):
        with context(value):
            assert type(context.value) is type(value)
            keys.add(config.current_key)
    assert len(keys) == 3
    with pytest.raises(TypeError, match="a hashable value"):
        context([])
    with pytest.raises(TypeError, match="a hashable value"):
        make_user_context([])


def test_keys_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_KEYS_LIMIT", len(module._shared.keys) + 10)
    context = make_user_context()
    base = config.current_key
    for i in range(50):
        with context(i):
            assert config.overriding_threads == 1
            with config.scoped(enable_x64=True), config.scoped(enable_x64=False):
                assert context.value == i
        with context(None):
            assert config.current_key is base
    assert len(module._shared.keys) <= module._KEYS_LIMIT


def test_update_reaches_threads_that_hold_other_overrides():
    ready, updated = threading.Barrier(2), threading.Barrier(2)
    seen = {}

    def work():
        with config.scoped(debug_nans=True):
            ready.wait()
            updated.wait()
            seen["x64"], seen["nans"] = config.enable_x64, config.debug_nans
            seen["key"] = config.current_key
        seen["after"] = config.current_key

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    config.update("enable_x64", True)
    updated.wait()
    thread.join()
    assert (seen["x64"], seen["nans"]) == (True, True)
    assert seen["after"] is config.current_key
    with config.scoped(debug_nans=True):
        assert seen["key"] is config.current_key


def test_overriding_threads_counts_what_differs():
    assert config.overriding_threads == 0
    with config.scoped(enable_x64=False):
        assert config.overriding_threads == 0
        config.update("enable_x64", True)
        assert config.overriding_threads == 1
        with config.scoped(enable_x64=True):
            assert config.overriding_threads == 0
        config.update("enable_x64", False)
    with config.scoped(enable_x64=True), config.scoped(debug_infs=True):
        assert config.overriding_threads == 1


def test_hooks_hear_of_changes():
    heard = []
    stop = config.on_change(
        lambda option, event: heard.append((option.name, event, config.overriding_threads))
    )
    with config.scoped(enable_x64=True):
        pass
    config.update("debug", 1)
    stop()
    config.update("debug", 0)
    assert heard == [("enable_x64", "enter", 1), ("enable_x64", "exit", 0), ("debug", "update", 0)]


def test_a_hook_can_refuse_a_change():
    def refuse(option, event):
        if event != "exit":
            raise RuntimeError("too late")

    heard: list[Any] = []
    listener = config.on_change(lambda o, event: heard.append((event, getattr(config, o.name))))
    stop = config.on_change(refuse)
    try:
        with pytest.raises(RuntimeError, match="too late"):
            config.update("num_cpu_devices", 4)
        with pytest.raises(RuntimeError, match="too late"), config.scoped(enable_x64=True):
            pytest.fail("the scope was entered")
    finally:
        stop()
        listener()
    assert (config.num_cpu_devices, config.enable_x64) == (-1, False)
    # Who was told of it before hears that it was undone.
    assert heard == [("update", 4), ("update", -1), ("enter", True), ("exit", False)]


def test_per_config():
    made = []

    def make():
        made.append(config.enable_x64)
        return object()

    per_config = PerConfig(make)
    first = per_config[config.current_key]
    with config.scoped(enable_x64=True):
        second = per_config[config.current_key]
    assert per_config[config.current_key] is first
    assert first is not second
    assert made == [False, True]


def test_names_that_are_taken():
    option = Option("enable_x64", OPTIONS[0], False, "Again.")
    with pytest.raises(ValueError, match="'enable_x64' is taken"):
        module.declare(option)
    assert isinstance(Config.enable_x64, bool)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_environment():
    show = (
        "from covector._base.config import config as c; print(c.enable_x64, c.debug, c.debug_nans)"
    )
    assert run(show, COVECTOR_DEBUG="3", JAX_ENABLE_X64="true").stdout == "True 3 False\n"
    assert run(show, COVECTOR_ENABLE_X64="0", JAX_ENABLE_X64="1").stdout == "False 0 False\n"
    failed = run(show, COVECTOR_DEBUG="loud")
    assert "COVECTOR_DEBUG takes an integer from 0 to 5; got 'loud'" in failed.stderr
    warned = run(show, JAX_DEBUG_NANS="perhaps")
    assert "JAX_DEBUG_NANS takes True or False; got 'perhaps'; it is ignored" in warned.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_forgets_other_threads():
    code = """
import os, threading
from covector._base.config import config
inside, leave = threading.Event(), threading.Event()
def work():
    with config.scoped(enable_x64=True):
        inside.set()
        leave.wait()
thread = threading.Thread(target=work)
thread.start()
inside.wait()
with config.scoped(debug_nans=True):
    assert config.overriding_threads == 2
    child = os.fork()
    if child == 0:
        os._exit(10 + config.overriding_threads + config.debug_nans)
_, status = os.waitpid(child, 0)
leave.set()
thread.join()
print(os.waitstatus_to_exitcode(status), config.overriding_threads)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "12 0\n", done.stderr


def _word(enumerated):
    return getattr(enumerated, "name", "").lower()


def test_options_are_those_of_jax():
    jax = pytest.importorskip("jax")
    known = {option.jax_name for option in config}
    theirs = {name for name in dir(jax.config) if name.startswith("jax_")}
    assert theirs - known == set()
    different = {
        option.jax_name: (option.default, default)
        for option in config
        if option.jax_name in theirs
        and (default := getattr(jax.config, option.jax_name)) != option.default
        # Enumerations of JAX are plain words here.
        and option.default not in (getattr(default, "value", None), str(default), _word(default))
    }
    assert different == {}
