"""Primitives under the names `add_p`, `scatter_add_p`, …: the classes of operations.

A primitive has a `name`, binds with `lax.slice_p.bind(x, start_indices=…)`, and is what an
equation of a Jaxpr calls its `primitive`.
"""

from __future__ import annotations

from covector.ir.op import Op


def primitive(name: str) -> type[Op] | None:
    """The class of the operation that is called `name` (as in 'add_p') here, if there is one."""
    if not name.endswith("_p"):
        return None
    found = Op.registry.get(name[:-2])
    return found or Op.registry.get(name[:-2].replace("_", "-"))


def names() -> list[str]:
    """Every name that `primitive` knows."""
    return sorted(f"{name.replace('-', '_')}_p" for name in Op.registry)
