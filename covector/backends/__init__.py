"""What compiles and runs programs."""

from covector import _wiring as _wiring
