"""The pages of docs/ and the docstrings of the package run as they are written."""

from __future__ import annotations

import builtins
import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import covector

ROOT = Path(__file__).resolve().parents[2]
PAGES = [p for p in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
         if p.exists() and ">>>" in p.read_text(encoding="utf-8")]  # fmt: skip
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page(page: Path) -> None:
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert tried > 0
    assert failed == 0


def _modules() -> list[str]:
    found = pkgutil.walk_packages(covector.__path__, "covector.")
    return sorted(m.name for m in found if not m.name.endswith("__main__"))


@pytest.mark.parametrize("name", _modules())
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    # A module that defines `round` or `sum` must not lend them to its examples.
    plain = {n: v for n, v in vars(builtins).items() if n in vars(module) and n[0] != "_"}
    failed, _ = doctest.testmod(module, extraglobs=plain, optionflags=FLAGS)
    assert failed == 0
