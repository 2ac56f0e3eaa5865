"""All rows, in the order of the table. A new file of rows is named here."""

from benchmarks.row import ROWS
from benchmarks.rows import calls, kernels, loops, programs

__all__ = ["ROWS", "calls", "kernels", "loops", "programs"]
