"""Programs over several devices: `shard_map` as an operation, and what varies along mesh axes."""

from covector import _wiring as _wiring
