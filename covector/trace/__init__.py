"""Tracers and staging: from a Python function to a Jaxpr."""

from covector import _wiring as _wiring
