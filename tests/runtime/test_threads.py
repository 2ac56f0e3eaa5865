"""How many threads there are, when they come, and what a fork leaves of them."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import covector as cv
import covector.numpy as jnp
from covector.runtime import threads


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_quota_of_a_control_group(tmp_path):
    assert threads.cgroup_cpus(tmp_path) is None
    write(tmp_path, "proc/self/cgroup", "0::/user/session\n")
    assert threads.cgroup_cpus(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/user/session/cpu.max", "max 100000\n")
    assert threads.cgroup_cpus(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/user/cpu.max", "250000 100000\n")
    assert threads.cgroup_cpus(tmp_path) == 3  # a parent's
    write(tmp_path, "sys/fs/cgroup/user/session/cpu.max", "50000 100000\n")
    assert threads.cgroup_cpus(tmp_path) == 1
    write(tmp_path, "sys/fs/cgroup/user/session/cpu.max", "garbage\n")
    assert threads.cgroup_cpus(tmp_path) == 3


def test_quota_in_a_container(tmp_path):
    # The path is the host's; what the container sees is the top of its own tree.
    write(tmp_path, "proc/self/cgroup", "0::/docker/0123456789abcdef\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "400000 100000")
    assert threads.cgroup_cpus(tmp_path) == 4


def test_quota_of_version_1(tmp_path):
    write(tmp_path, "proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n")
    assert threads.cgroup_cpus(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "150000\n")
    assert threads.cgroup_cpus(tmp_path) == 2


def test_the_quota_bounds_the_threads(monkeypatch):
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: 1)
    assert threads.available_cpus() == 1
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: 4096)
    assert 1 <= threads.available_cpus() <= (os.cpu_count() or 1)


def test_limit_threads():
    before = cv.num_threads()
    with cv.limit_threads(before + 1):
        assert cv.num_threads() == before + 1
        with pytest.raises(ZeroDivisionError), cv.limit_threads(before + 2):
            raise ZeroDivisionError
        assert cv.num_threads() == before + 1
    assert cv.num_threads() == before
    with pytest.raises(ValueError, match="at least one"), cv.limit_threads(0):
        pass
    seen = []
    cv.limit_threads(before + 3)(lambda: seen.append(cv.num_threads()))()
    assert (seen, cv.num_threads()) == ([before + 3], before)


_rng = np.random.default_rng(5)
_wide = _rng.normal(size=(700, 900)).astype(np.float32)
_long = _rng.normal(size=600_000).astype(np.float32)
#: Programs whose kernels are spread over threads.
SPREAD = {
    "pointwise": (lambda x: jnp.tanh(x) * jnp.exp(-x * x), _long),
    "sum": (lambda x: jnp.sum(x), _long),
    "column sums": (lambda x: jnp.sum(x, axis=0), _wide),
    "softmax": (lambda x: cv.nn.softmax(x, axis=-1), _wide),
    "variance": (lambda x: jnp.var(x), _wide),
    "cumsum": (lambda x: jnp.cumsum(x), _long),
    "sort": (lambda x: jnp.sort(x), _long),
    "argsort": (lambda x: jnp.argsort(x), _long[:200_000]),
    "gradient": (cv.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.log1p(x * x))), _long),
    "scatter": (lambda x: jnp.zeros(1000).at[jnp.arange(x.size) % 1000].add(x), _long),
    "normal": (lambda x: cv.random.normal(cv.random.key(3), (300_000,)) + x[0], _long),
    "map": (lambda x: cv.lax.map(lambda row: jnp.sort(row) @ row, x), _wide),
}


@pytest.mark.parametrize("name", SPREAD)
def test_results_do_not_depend_on_the_number(name):
    fun, x = SPREAD[name]
    run = cv.jit(fun)
    with cv.limit_threads(1):
        wanted = np.asarray(run(x)).copy()
    for count in (2, 3, 7):
        with cv.limit_threads(count):
            np.testing.assert_array_equal(np.asarray(run(x)), wanted)


def run_python(text, **variables):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


COUNTING = """
import os
import numpy as np

def count():
    return len(os.listdir("/proc/self/task")) - before

before = 0
before = count()  # NumPy's BLAS has threads of its own
import covector as cv, covector.numpy as jnp

print(count())
x = jnp.arange(1000.0)
f = cv.jit(lambda x: jnp.sin(x) + x @ x)
x.reshape(25, 40) @ x.reshape(40, 25)
f(x), f(x), jnp.sort(x), (x + 1).sum(), cv.grad(lambda x: (x * x).sum())(x)
print(count())
y = np.ones((3000, 1000), np.float32)
g = cv.jit(lambda x: jnp.sum(jnp.tanh(x), axis=1))
compiled = g.lower(y).compile()
print(count())
compiled(y).block_until_ready()
print(count())
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_no_thread_before_the_first_parallel_kernel():
    imported, small, compiled, large = map(
        int, run_python(COUNTING, COVECTOR_NUM_THREADS="3", JAX_CPU_ENABLE_ASYNC_DISPATCH="0")
    )
    assert (imported, small, compiled) == (0, 0, 0)
    assert large == 2


FORKING = """
import os, sys
import numpy as np
import covector as cv, covector.numpy as jnp

big = np.ones((3000, 1000), np.float32)
f = cv.jit(lambda x: jnp.sum(jnp.tanh(x)))
stage = sys.argv[1] if len(sys.argv) > 1 else {stage!r}
if stage == "small":
    float(cv.jit(lambda x: x + 1)(1.0))
if stage == "large":
    float(f(big))
child = os.fork()
if child == 0:
    value = float(f(big))
    ok = abs(value - 3e6 * np.tanh(1.0)) < 1e3 and abs(float(f(big)) - value) == 0
    tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 2
    os._exit(0 if ok and tasks >= 2 else 1)
_, status = os.waitpid(child, 0)
print(status, float(f(big)) > 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("stage", ["import", "small", "large"])
def test_a_forked_child_computes_in_parallel(stage):
    text = FORKING.format(stage=stage).replace('"-W", "error"', "")
    text = "import warnings; warnings.simplefilter('ignore')\n" + text
    assert run_python(text, COVECTOR_NUM_THREADS="2") == ["0", "True"]


def test_python_knows_no_worker():
    cv.jit(lambda x: jnp.tanh(x))(_long).block_until_ready()
    assert not [t for t in threading.enumerate() if "worker" in t.name]
