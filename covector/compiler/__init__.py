"""From a Jaxpr to loop programs.  What a program on disk spares is loaded at first use."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.compiler import callbacks as callbacks
    from covector.compiler import control as control
    from covector.compiler import epilogue as epilogue
    from covector.compiler import in_place as in_place
    from covector.compiler import math as math
    from covector.compiler import pipeline as pipeline
    from covector.compiler import prologue as prologue

from covector import _wiring as _wiring  # after the door is made: it comes in here
