"""Covector beside JAX and NumPy, in one run: `python -m benchmarks --help`; see README.md here."""
