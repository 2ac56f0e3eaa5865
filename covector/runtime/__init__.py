"""Arrays, the pool, entry points, eager evaluation."""

from covector import _wiring as _wiring
