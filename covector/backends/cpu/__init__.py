"""The CPU: machine code through LLVM.  What writes it is loaded when there is some to write."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.backends.cpu import assemble as assemble
    from covector.backends.cpu import bundle as bundle
    from covector.backends.cpu import eager as eager
    from covector.backends.cpu import executable as executable
    from covector.backends.cpu import library as library
    from covector.backends.cpu import llvm as llvm
    from covector.backends.cpu import objects as objects
