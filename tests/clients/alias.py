"""`import jax` gives Covector: a finder that serves `jax` and its submodules from `covector`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any


class Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads `jax.x` by importing `covector.x`, or by taking the attribute of that name."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname == "jax" or fullname.startswith("jax."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        ours = "covector" + spec.name[len("jax") :]
        try:
            return importlib.import_module(ours)
        except ModuleNotFoundError as error:
            parent, _, name = ours.rpartition(".")
            found = getattr(importlib.import_module(parent), name, None) if parent else None
            if found is None:
                raise ModuleNotFoundError(f"no module {ours}", name=spec.name) from error
            return found

    def exec_module(self, module: ModuleType) -> None:
        """It has been."""


def install() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, Alias())
