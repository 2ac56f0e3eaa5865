"""Linear algebra: factors of matrices, systems, eigenvalues, by LAPACK's routines.

Every operation takes batches of matrices: the last two axes are rows and columns.
"""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.ops.linalg import banded, eigen, forms, lu, parts, qr, spectral, svd, triangular

__all__ = ["banded", "eigen", "forms", "lu", "parts", "qr", "spectral", "svd", "triangular"]
