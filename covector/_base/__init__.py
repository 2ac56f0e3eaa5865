"""Leaves of the package: options, errors, containers, printing. Imports nothing else of ours."""
