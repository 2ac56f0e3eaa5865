"""The version of Covector, stated here only: the build reads this file, the package imports it."""

__version__ = "0.1.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))
