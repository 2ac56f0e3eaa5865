"""The memory that native code and Python share: structures of words, in `language`'s terms.

Python fills them through ctypes (`build.py`); the order of fields is the layout.
"""

from __future__ import annotations

from typing import Final

from .language import Struct, word

# Results of a lookup that are no objects.
MISS: Final = 1
STOP: Final = 2  # as MISS, and the index may be gone

# Flags of a record.
LONG: Final = 1  # worth releasing the interpreter lock
TESTED: Final = 2  # where the last output is not 0, the fallback makes the call

# Places in `Context.operators`; the fallback of place i is at OPERATOR_FALLBACKS + 2 i, its
# reflected form at + 1.
FIRST_COMPARISON: Final = 14
FIRST_UNARY: Final = 20
SUBSCRIPT: Final = 24
OPERATORS: Final = 25
OPERATOR_FALLBACKS: Final = 8
FALLBACKS: Final = 58

# Steps of a pattern (kind, n, address): how arguments become leaves, a small stack machine.
ARGUMENT: Final = 0  # push argument i
LEAF: Final = 1  # pop the next leaf
NONE: Final = 2  # pop None
TUPLE: Final = 3  # pop a tuple of n, push its items
LIST: Final = 4  # pop a list of n, push its items
DICT: Final = 5  # pop a dict of n, push the values of the keys at the address
NAMED: Final = 6  # pop an instance of the tuple subclass at the address, of n; push its items
SAME: Final = 7  # pop the very object at the address
INTEGER: Final = 8  # pop a Python integer: a run-time symbol
SLICE: Final = 9  # pop a slice of these bounds: three words (start, stop, step) at the address
# Steps of a result; each pushes one object, made of the n last: LEAF (output n), NONE, TUPLE,
# LIST, DICT (keys at the address), NAMED (what the callable at the address gives for the tuple).


class Object(Struct):
    """The head of every Python object."""

    refcount: word
    type: word


class Pool(Struct):
    """The caching allocator."""

    in_use: word
    cached: word
    peak: word
    limit: word
    advise: word  # madvise, or 0
    free: word  # one list of free blocks a size class


class Buffer(Object):
    """Memory that frees itself: a block of the pool, or another object's if `owner` is set."""

    address: word
    nbytes: word
    owner: word


class Array(Object):
    """`runtime.array.Array`: its slots, in the order of its declaration."""

    aval: word
    buffer: Buffer
    sharding: word
    weakrefs: word


class Helper(Object):
    """`x.at`."""

    array: word


class Layout(Struct):
    """What native code needs to know of an aval."""

    kind: word  # ord of the NumPy kind; 'e' half, 'E' bfloat16, 0 other
    itemsize: word
    ndim: word
    size: word
    nbytes: word
    format: word  # C string of the buffer protocol, or 0
    shape: word
    strides: word
    dtype: word  # the NumPy dtype of the elements in memory
    extended: word  # 1: the elements are opaque


class Record(Struct):
    """One compiled program for one signature."""

    leaves: word  # their number
    signature: word  # (aval, sharding) a leaf
    hidden: word  # number of captured buffers
    hidden_data: word
    outputs: word  # their number
    output_types: word  # (aval, bytes, sharding, 1 + the leaf whose memory it is in or 0) an output
    code: word
    symbols: word  # addresses of the constant ones
    constant_symbols: word  # their number
    integers: word  # number of symbols that are arguments
    bounds: word  # what each of them must stay below
    arena: word
    flags: word
    donated: word  # number of arguments given up
    donated_leaves: word
    mark: word  # what these hold afterwards
    result: word  # steps, or 0 for a single array
    result_steps: word
    after: word  # called when a run has ended, where the program calls Python; or 0
    holder: word  # the Python object that keeps all this alive


class Pattern(Struct):
    """One structure of arguments, with a hash table of records by the leaves' types."""

    arguments: word  # number of positional ones
    names: word  # number of keywords
    keywords: word
    program: word  # steps, or 0 where every argument is a leaf
    steps: word
    leaves: word
    integers: word
    depth: word
    mask: word
    slots: word
    holder: word  # the Python object that keeps all this alive


class Index(Struct):
    """What an entry knows: its patterns."""

    count: word
    patterns: word
    rows: word  # the pattern of `x[i]` by an integer (`runtime.rows`), or 0


class Entry(Object):
    """A callable: tries its records, else calls `fallback`, as a method if `is_method`."""

    vectorcall: word
    fallback: word
    is_method: word
    always: word  # records serve whatever the quiet word says: who calls is below all traces
    index: Index
    state: word  # the Python object that owns the index
    dict: word
    weakrefs: word


class View(Struct):
    """Py_buffer of the C API."""

    buf: word
    obj: word
    len: word
    itemsize: word
    readonly_ndim: word  # two C ints
    format: word
    shape: word
    strides: word
    suboffsets: word
    internal: word


class Context(Struct):
    """What the code knows of the process."""

    quiet: word  # address of the quiet word
    array_type: word
    buffer_type: word
    entry_type: word
    float_type: word
    int_type: word
    bool_type: word
    tuple_type: word
    list_type: word
    dict_type: word
    slice_type: word
    none: word
    true: word
    false: word
    wide: word  # 1 under enable_x64
    weak_float: word
    weak_int: word
    strong_bool: word
    layouts: word  # dict: aval -> address of its Layout
    make_layout: word  # the function that adds one
    from_numpy: word  # makes an array of a NumPy array
    resolve: word  # waits for, or refuses, an array without memory
    fallbacks: word  # Python functions by slot
    operators: word  # entries by operator, as in FIRST_* below
    helper_type: word  # of `x.at`
    update_type: word  # the named tuple (array, index) that `x.at[index]` is
    not_implemented: word
    buffer_error: word
    type_error: word
    exhausted: word  # raises: there is no memory for so many bytes
    array_data: word  # offset of the data pointer in NumPy's array object
    array_class: word  # numpy.ndarray
