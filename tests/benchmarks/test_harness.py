"""The harness measures what it says: wrong results get no figures, ratios are the right ones."""

import json

import numpy as np
import pytest

from benchmarks import limits, report
from benchmarks.case import Case, leaves
from benchmarks.driver import Driver, Measurement, Plan, WrongResult, check_equal
from benchmarks.limits import LimitCase
from benchmarks.process import CACHES, Process, WorkerError, environment
from benchmarks.row import Kind, Limit, Row
from benchmarks.rows import ROWS

PAIR = Plan(subject="jax", reference="jax", alternations=2, runs=1, batch_seconds=0.002)


def make_row(*, goal=0.5, rtol=1e-3, **kwargs):
    inputs, build = (lambda rng: ()), (lambda lib: lib.numpy.sum)
    return Row("sum", "a sum", Kind.STEADY, goal, rtol, inputs, build, **kwargs)


def measured(subject, reference, others=None, **kwargs):
    measurement = Measurement(make_row(**kwargs))
    for side, runs in {"subject": subject, "reference": reference, **(others or {})}.items():
        for run, turns in enumerate(runs):
            for seconds in turns:
                measurement.add(side, run, seconds)
    return measurement


def test_every_row_says_what_it_is_and_draws_the_same_inputs_again():
    for name, row in ROWS.items():
        assert row.what, name
        assert row.goal is None or 0 < row.goal <= 1, name
        assert row.goals() or row.by_hand or row.limit, name
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


def test_all_goals_of_a_row_have_to_be_met():
    others = {"numpy": [[2.0]], "limit": [[0.9]]}
    kwargs = {"goal": 0.5, "numpy_goal": 0.6, "limit": Limit(bytes=1), "share": 0.85}
    good = measured([[1.0]], [[4.0]], others, **kwargs)
    assert good.met() is True
    assert report.cells(good)[4:8] == ["0.250 ≤ 0.50", "0.500 ≤ 0.60", "90% ≥ 85%", "pass"]
    for other, worse in (("numpy", 1.5), ("limit", 0.5)):
        bad = measured([[1.0]], [[4.0]], {**others, other: [[worse]]}, **kwargs)
        assert [bad.meets(side) for side in ("reference", other)] == [True, False]
        assert report.cells(bad)[7] == "miss"
    assert "0.6 of NumPy's time, 0.85 of the machine's limit" in report.goals(good.row)


def test_the_machine_is_a_side_of_rows_that_say_what_they_need(monkeypatch):
    assert PAIR.sides(make_row(limit=Limit(bytes=1))) == ["subject", "reference", "limit"]
    monkeypatch.setattr(limits, "COPIED", 1 << 20)
    monkeypatch.setattr(limits, "ROUNDS", 1000)
    case = LimitCase("gelu")
    case.prepare(0.001)
    assert 1e-4 < case.time() < 1
    moving, computing = limits.best(Limit(bytes=1e9)), limits.best(Limit(multiply_adds=1e9))
    assert max(moving, computing) == pytest.approx(limits.best(Limit(1e9, 1e9)), rel=0.9)
    with pytest.raises(ValueError, match="eager_add does not say"):
        LimitCase("eager_add")


def test_torch_is_a_side_where_it_is_installed(monkeypatch):
    row = make_row()
    row.torch(lambda torch: torch.sum)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert PAIR.sides(row) == ["subject", "reference"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert PAIR.sides(row) == ["subject", "reference", "torch", "torch.compile"]
    beside = measured([[1.0]], [[4.0]], {"torch": [[2.0]]})
    assert report.torch_lines([beside]) == ["`sum`: 0.500 of torch's time, 2 s"]


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
    case = Case("eager_add", "numpy", np)
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
