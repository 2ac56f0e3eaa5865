"""The demonstration does what it says: it learns, agrees with NumPy, and draws."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[2] / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("digits", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_data_is_whole(digits):
    (images, labels), (test_images, test_labels) = digits.load()
    assert images.shape == (1437, 64)
    assert test_images.shape == (360, 64)
    assert images.min() == 0
    assert images.max() == 1
    counts = np.bincount(np.concatenate([labels, test_labels]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_quick_run(digits, tmp_path, capsys):
    picture = tmp_path / "digits.png"
    assert digits.main(["--quick", "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "test accuracy" in printed
    assert "both agree" in printed


def test_an_untrained_model_fails(digits, tmp_path, capsys):
    assert digits.main(["--epochs", "0", "--output", str(tmp_path / "digits.png")]) == 1
    assert "should be at least 96%" in capsys.readouterr().err


def test_disagreement_with_numpy_is_noticed(digits, monkeypatch):
    data, _ = digits.load()
    start = digits.init(digits.random.key(0))
    by_hand = digits.numpy_step
    monkeypatch.setattr(digits, "numpy_step", lambda p, v, x, y: by_hand(p, v, x * 1.01, y))
    with pytest.raises(AssertionError):
        digits.compare_with_numpy(start, data, seed=0)
