"""Kernels as loops over elements, and the planner that makes them, loaded when there is a plan."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.compiler.loops import asks as asks
    from covector.compiler.loops import columns as columns
    from covector.compiler.loops import each as each
    from covector.compiler.loops import lanes as lanes
    from covector.compiler.loops import matrices as matrices
    from covector.compiler.loops import planner as planner
    from covector.compiler.loops import serial as serial
    from covector.compiler.loops import verify as verify
