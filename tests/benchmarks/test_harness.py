"""The harness measures what it says: wrong results get no figures, ratios are the right ones."""

import json

import numpy as np
import pytest

from benchmarks import report
from benchmarks.case import Case, leaves
from benchmarks.driver import Driver, Measurement, Plan, WrongResult, check_equal
from benchmarks.process import CACHES, Process, WorkerError, environment
from benchmarks.row import Kind, Row
from benchmarks.rows import ROWS

PAIR = Plan(subject="jax", reference="jax", alternations=2, runs=1, batch_seconds=0.002)


def make_row(*, goal=0.5, rtol=1e-3):
    return Row("sum", "a sum", Kind.STEADY, goal, rtol, lambda rng: (), lambda lib: lib.numpy.sum)


def measured(subject, reference, **kwargs):
    measurement = Measurement(make_row(**kwargs))
    for run, turns in enumerate(zip(subject, reference, strict=True)):
        for mine, theirs in zip(*turns, strict=True):
            measurement.add("subject", run, mine)
            measurement.add("reference", run, theirs)
    return measurement


def test_every_row_says_what_it_is_and_draws_the_same_inputs_again():
    for name, row in ROWS.items():
        assert row.what, name
        assert row.goal is None or 0 < row.goal <= 1, name
    first, second = (leaves(ROWS["mlp"].draw()) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_ratio_is_the_median_over_the_turns_of_all_runs():
    measurement = measured([[1.0, 2.0, 9.0], [1.0, 1.0, 1.0]], [[4.0, 4.0, 4.0], [2.0, 2.0, 2.0]])
    assert measurement.ratio("reference") == 0.5
    assert measurement.run_ratios() == [0.5, 0.5]
    assert measurement.met() is True
    assert measurement.ratio("numpy") is None


def test_missed_goal():
    assert measured([[3.0]], [[4.0]]).met() is False
    assert measured([[3.0]], [[4.0]], goal=None).met() is None


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("actual", "complaint"),
    [
        ([], "0 arrays instead of 1"),
        ([np.ones(4, np.float32)], r"\[4\] instead of"),
        ([np.ones(3)], "float64"),
        ([ONES * np.float32(1.01)], "differs by 0.01"),
        ([np.array([1, 1, np.nan], np.float32)], "differs by nan"),
    ],
)
def test_wrong_results_are_refused(actual, complaint):
    with pytest.raises(WrongResult, match=complaint):
        check_equal(make_row(), [ONES], actual, types=True)


def test_right_results_pass():
    check_equal(make_row(), [ONES], [ONES * np.float32(1.0005)], types=True)
    check_equal(make_row(), [ONES], [np.ones(3)], types=False)
    check_equal(make_row(rtol=0), [ONES], [ONES.copy()], types=True)
    with pytest.raises(WrongResult):
        check_equal(make_row(rtol=0), [ONES], [np.nextafter(ONES, np.float32(2))], types=True)


def test_case_counts_calls_until_a_batch_is_long_enough():
    case = Case("eager_add", np)
    _, (result,) = case.first()
    v, w = ROWS["eager_add"].draw()
    np.testing.assert_array_equal(result, v + w)
    case.prepare(0.002)
    assert case.calls > 100
    assert 0 < case.time() < 1e-4


def test_each_side_gets_its_own_cache_and_only_that(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/the/users/own")
    folder = str(tmp_path)
    cold = environment("jax", 2, tmp_path, reads_cache=False)
    assert not any(name in cold for name in CACHES["jax"])
    warm = environment("jax", 2, tmp_path, reads_cache=True)
    assert warm["JAX_COMPILATION_CACHE_DIR"] == folder
    ours = environment("covector", 2, tmp_path, reads_cache=False)
    assert {ours[name] for name in CACHES["covector"]} == {folder}
    assert "JAX_COMPILATION_CACHE_DIR" not in ours


def test_worker_reports_errors_and_goes_on(tmp_path):
    with Process("numpy", 1, tmp_path) as process:
        assert process.ask("hello")["version"] == np.__version__
        with pytest.raises(WorkerError, match="KeyError: 'no_such_row'"):
            process.ask("first", "no_such_row")
        seconds, (result,) = process.ask("first", "eager_index")
        assert seconds > 0
        assert result == ROWS["eager_index"].draw()[0][3]


def test_a_dead_worker_is_an_error_not_a_hang(tmp_path):
    with Process("numpy", 1, tmp_path) as process:
        process.ask("hello")
        process.process.kill()
        process.process.wait()
        with pytest.raises(WorkerError, match="died"):
            process.ask("hello")


@pytest.mark.usefixtures("jax")
def test_a_library_against_itself():
    """The whole way, by JAX twice: every kind of row, and results that agree."""
    names = ("jit_scalar", "import_library")
    lines = []
    measurements = Driver(PAIR, lines.append).measure([ROWS[name] for name in names])
    assert [m.fault for m in measurements] == [None, None]
    assert len(lines) == 2
    for measurement in measurements:
        assert set(measurement.seconds) == {"subject", "reference", "numpy"}
        assert all(len(run) == 2 for runs in measurement.seconds.values() for run in runs)
        assert 0.05 < measurement.ratio("reference") < 20


def test_report_shows_faults_without_figures():
    good = measured([[1.0, 1.0]], [[4.0, 4.0]])
    bad = measured([[1.0]], [[4.0]])
    bad.fault = "subject against reference: 1 arrays instead of 2"
    facts = {"processor": "one"}
    text = report.markdown(PAIR, [good, bad], facts)
    rows = [line for line in text.splitlines() if line.startswith("| sum")]
    assert "0.250" in rows[0]
    assert "pass" in rows[0]
    assert "FAULT" in rows[1]
    assert "0.250" not in rows[1]
    content = json.loads(report.as_json(PAIR, [good, bad], facts))
    assert [row["verdict"] for row in content["rows"]] == ["pass", "FAULT"]
    assert content["rows"][1]["ratio"] is None
