"""Kernels as loops over elements, and the planner that makes them, loaded when there is a plan."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.compiler.loops import lanes as lanes
    from covector.compiler.loops import planner as planner
    from covector.compiler.loops import serial as serial
