"""The intermediate representation: abstract values, operations, Jaxprs, their text and meaning."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.ir import hlo_scalar as hlo_scalar
    from covector.ir import stablehlo as stablehlo
    from covector.ir import verify as verify

from covector import _wiring as _wiring  # after the door is made: it comes in here
