"""All rows, in the order of the table. A new file of rows is named here."""

from benchmarks.row import ROWS
from benchmarks.rows import calls, contractions, convolution, kernels, loops, ordering, programs

__all__ = [
    "ROWS",
    "calls",
    "contractions",
    "convolution",
    "kernels",
    "loops",
    "ordering",
    "programs",
]
