"""The passes over Jaxprs, one file each: `pipeline` says which, in what order, and for what."""

from covector._base.lazy import lazily as _lazily

with _lazily(globals()):
    from covector.compiler.passes import contract as contract
    from covector.compiler.passes import cse as cse
    from covector.compiler.passes import dce as dce
    from covector.compiler.passes import elementwise_loops as elementwise_loops
    from covector.compiler.passes import expand as expand
    from covector.compiler.passes import fold_constants as fold_constants
    from covector.compiler.passes import nested as nested
    from covector.compiler.passes import simplify as simplify
    from covector.compiler.passes import sink_views as sink_views
    from covector.compiler.passes import small_matrices as small_matrices
    from covector.compiler.passes import split_reductions as split_reductions
    from covector.compiler.passes import split_scatters as split_scatters
    from covector.compiler.passes import widen as widen
