"""Native: compiled entry points.  A call looks for the record of its argument types and runs it.

One generic code for all programs: what differs is data (`structs.Record`).  Whatever is not as a
record wants it (a tracer, another type, a scoped option, a trace in progress) goes to the
entry's Python fallback with the same arguments.
"""

from __future__ import annotations

from .array_code import ON_STACK, call_method, new_array, release
from .capi import (
    Py_DecRef,
    Py_IncRef,
    PyDict_GetItemWithError,
    PyDict_New,
    PyDict_SetItem,
    PyDict_Size,
    PyErr_Clear,
    PyErr_NoMemory,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyFloat_AsDouble,
    PyList_GetItem,
    PyList_New,
    PyList_SetItem,
    PyList_Size,
    PyLong_AsLongLongAndOverflow,
    PyMem_RawFree,
    PyMem_RawMalloc,
    PyMethod_New,
    PyObject_ClearWeakRefs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyObject_GetAttrString,
    PyObject_Vectorcall,
    PySlice_Unpack,
    PyTuple_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    PyTuple_Size,
    PyType_GenericAlloc,
)
from .language import (
    address_of,
    call,
    load32,
    stack,
    store8,
    store_f32,
    store_f64,
    text,
    word,
)
from .pool_code import context, give_block, new_buffer, take_block
from .structs import (
    ARGUMENT,
    DICT,
    INTEGER,
    LEAF,
    LIST,
    LONG,
    MISS,
    NAMED,
    NONE,
    SAME,
    SLICE,
    TUPLE,
    Array,
    Buffer,
    Entry,
    Index,
    Object,
    Pattern,
    Record,
)

COUNT_MASK = (1 << 62) - 1  # the flag bit of vectorcall's count is above
MULTIPLIER = -7046029254386353131  # 2**64 divided by the golden ratio, odd
INT64_MIN = -(1 << 63)
INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1


# Calling.


def call_entry(self: word, args: word, countf: word, names: word) -> word:
    """The vectorcall of every entry."""
    entry = Entry(self)
    index = entry.index
    if (context.quiet[0] == 0 or entry.always != 0) and index != 0:
        found = try_index(index, args, countf & COUNT_MASK, names)
        if found != MISS:
            return found
    if entry.is_method:
        return call_method(entry.fallback, self, args, countf & COUNT_MASK, names)
    return PyObject_Vectorcall(entry.fallback, args, countf, names)


def try_index(index: Index, args: word, count: word, names: word) -> word:
    """The result of the record that fits; MISS if none does; 0 with an exception."""
    i = 0
    while i < index.count:
        pattern = Pattern(index.patterns[i])
        if pattern.arguments == count and same_names(pattern, names):
            found = try_pattern(pattern, args)
            if found != MISS:
                return found
        i += 1
    return MISS


def same_names(pattern: Pattern, names: word) -> word:
    """Whether a call's keywords are the pattern's, in its order (names are interned)."""
    if names == 0:
        return pattern.names == 0
    if PyTuple_Size(names) != pattern.names:
        return 0
    i = 0
    while i < pattern.names:
        if PyTuple_GetItem(names, i) != pattern.keywords[i]:
            return 0
        i += 1
    return 1


def try_pattern(pattern: Pattern, args: word) -> word:
    """As `try_index`, for one pattern: finds room for its frame."""
    words = 4 * pattern.leaves + pattern.integers + pattern.depth
    if words <= ON_STACK:
        return in_frame(pattern, args, stack(words + 1))
    frame = PyMem_RawMalloc(8 * words)
    if frame == 0:
        return PyErr_NoMemory()
    found = in_frame(pattern, args, frame)
    PyMem_RawFree(frame)
    return found


def in_frame(pattern: Pattern, args: word, frame: word) -> word:
    """As `try_pattern`.  The frame holds data addresses, scalars, types, leaves, integers."""
    count = pattern.leaves
    data = frame
    scalars = data + 8 * count
    types = scalars + 8 * count
    leaves = args
    integers = types + 16 * count
    if pattern.program != 0:
        leaves = types + 8 * count
        if match(pattern, args, leaves, integers) == 0:
            return MISS
    mixed = 0
    i = 0
    while i < count:
        x = Array(leaves[i])
        if x.type == context.array_type:
            buffer = x.buffer
            if buffer == 0 or buffer.type != context.buffer_type:
                return MISS
            data[i] = buffer.address
            aval = x.aval
            mixed = mixed ^ x.sharding
        else:
            data[i] = scalars + 8 * i
            aval = scalar(x, scalars + 8 * i)
            if aval == 0:
                return MISS
        types[i] = aval
        mixed = (mixed ^ aval) * MULTIPLIER
        i += 1
    slot = (mixed >> 32) & pattern.mask
    while True:
        record = Record(pattern.slots[slot])
        if record == 0:
            return MISS
        if fits(record, types, leaves):
            return run(record, data, leaves, integers)
        slot = (slot + 1) & pattern.mask
    return MISS


def scalar(x: Object, where: word) -> word:
    """Writes a Python number to memory and gives its aval; 0 if it is none, or does not fit."""
    kind = x.type
    if context.quiet[0] != 0:  # this thread may see other scalar types than the process
        return 0
    if kind == context.float_type:
        value = PyFloat_AsDouble(x)
        if context.wide:
            store_f64(where, value)
        else:
            store_f32(where, value)
        return context.weak_float
    if kind == context.int_type:
        number = small_integer(x)
        if number == INT64_MIN or (context.wide == 0 and not fits_32(number)):
            return 0
        where[0] = number
        return context.weak_int
    if kind == context.bool_type:
        store8(where, 1 if x == context.true else 0)
        return context.strong_bool
    return 0


def fits_32(number: word) -> word:
    """Whether a word is a 32-bit integer."""
    return number >= INT32_MIN and number <= INT32_MAX


def small_integer(x: word) -> word:
    """The value of a Python int; INT64_MIN if it has more than 63 bits."""
    overflow = stack(1)
    value = PyLong_AsLongLongAndOverflow(x, overflow)
    if load32(overflow) != 0:
        return INT64_MIN
    return value


def fits(record: Record, types: word, leaves: word) -> word:
    """Whether a record is for these types and shardings."""
    i = 0
    while i < record.leaves:
        wanted = record.signature + 16 * i
        if wanted[0] != types[i]:
            return 0
        x = Array(leaves[i])
        if x.type == context.array_type:
            if wanted[1] != x.sharding:
                return 0
        elif wanted[1] != 0:
            return 0
        i += 1
    return 1


def match(pattern: Pattern, args: word, leaves: word, integers: word) -> word:
    """Takes the arguments apart into leaves and integers; 0 if the structure is another.

    Runs no Python code (keys are exact strings or ints), so references may be borrowed.
    """
    pending = integers + 8 * pattern.integers
    top = 0
    step = pattern.program
    end = step + 24 * pattern.steps
    leaf = 0
    integer = 0
    while step < end:
        kind = step[0]
        n = step[1]
        where = step[2]
        step = step + 24
        if kind == ARGUMENT:
            pending[top] = args[n]
            top += 1
            continue
        top -= 1
        x = Object(pending[top])
        if kind == LEAF:
            leaves[leaf] = x
            leaf += 1
        elif kind == TUPLE:
            if x.type != context.tuple_type or PyTuple_Size(x) != n:
                return 0
            top = push_tuple(x, n, pending, top)
        elif kind == LIST:
            if x.type != context.list_type or PyList_Size(x) != n:
                return 0
            i = n
            while i > 0:
                i -= 1
                pending[top] = PyList_GetItem(x, i)
                top += 1
        elif kind == DICT:
            if x.type != context.dict_type or PyDict_Size(x) != n:
                return 0
            i = n
            while i > 0:
                i -= 1
                value = PyDict_GetItemWithError(x, where[i])
                if value == 0:
                    PyErr_Clear()
                    return 0
                pending[top] = value
                top += 1
        elif kind == NAMED:
            if x.type != where or PyTuple_Size(x) != n:
                return 0
            top = push_tuple(x, n, pending, top)
        elif kind == NONE:
            if x != context.none:
                return 0
        elif kind == SAME:
            if x != where:
                return 0
        elif kind == SLICE:
            if same_slice(x, where) == 0:
                return 0
        elif kind == INTEGER:
            if x.type != context.int_type:
                return 0
            number = small_integer(x)
            if number == INT64_MIN:
                return 0
            integers[integer] = number
            integer += 1
    return 1


def same_slice(x: Object, wanted: word) -> word:
    """Whether x is a slice with these parts; each is None or an exact int, so no code runs."""
    if x.type != context.slice_type:
        return 0
    i = 0
    while i < 3:
        part = Object((x + 16)[i])
        if part != context.none and part.type != context.int_type:
            return 0
        i += 1
    parts = stack(3)
    if PySlice_Unpack(x, parts, parts + 8, parts + 16) < 0:
        PyErr_Clear()
        return 0
    return parts[0] == wanted[0] and parts[1] == wanted[1] and parts[2] == wanted[2]


def push_tuple(x: word, n: word, pending: word, top: word) -> word:
    """Pushes the items of a tuple, the first on top; the new height."""
    i = n
    while i > 0:
        i -= 1
        pending[top] = PyTuple_GetItem(x, i)
        top += 1
    return top


# Running.


def run(record: Record, data: word, leaves: word, integers: word) -> word:
    """Runs a record's program; its result, MISS, or 0 with an exception."""
    symbols = record.symbols
    if record.integers != 0:
        symbols = stack(record.constant_symbols + record.integers)
        if place_symbols(record, symbols, integers) == 0:
            return MISS
    words = record.hidden + record.leaves + 2 * record.outputs + 1
    if words <= ON_STACK:
        return run_in(record, data, leaves, symbols, stack(words))
    frame = PyMem_RawMalloc(8 * words)
    if frame == 0:
        return PyErr_NoMemory()
    result = run_in(record, data, leaves, symbols, frame)
    PyMem_RawFree(frame)
    return result


def place_symbols(record: Record, symbols: word, integers: word) -> word:
    """The run-time symbols: constants, then the integers of the call; 0 if one is out of bounds."""
    n = record.constant_symbols
    i = 0
    while i < n:
        symbols[i] = record.symbols[i]
        i += 1
    i = 0
    while i < record.integers:
        value = integers[i]
        bound = record.bounds[i]
        if value < 0:
            value = value + bound
        if value < 0 or value >= bound:
            return 0
        symbols[n + i] = value
        i += 1
    return 1


def run_in(record: Record, data: word, leaves: word, symbols: word, frame: word) -> word:
    """As `run`; `frame` has room for the buffers and the outputs."""
    buffers = frame
    i = 0
    while i < record.hidden:
        buffers[i] = record.hidden_data[i]
        i += 1
    at = buffers + 8 * record.hidden
    i = 0
    while i < record.leaves:
        at[i] = data[i]
        i += 1
    at = at + 8 * record.leaves
    outputs = at + 8 * record.outputs + 8
    made = 0
    kind = record.output_types
    while made < record.outputs:
        buffer = new_buffer(kind[1])
        if buffer == 0:
            break
        x = new_array(kind[0], buffer, kind[2])
        if x == 0:
            break
        at[made] = buffer.address
        outputs[made] = x
        kind = kind + 24
        made += 1
    arena = 0
    if made == record.outputs and record.arena != 0:
        arena = take_block(record.arena)
        at[made] = arena
        if arena == 0:
            PyErr_NoMemory()
    if made < record.outputs or (record.arena != 0 and arena == 0):
        drop(outputs, made)
        return 0
    # From here on other code may run and clear the table: the record must stay.
    holder = record.holder
    Py_IncRef(holder)
    if record.flags & LONG:
        run_long(record, buffers, symbols, leaves)
    else:
        call(record.code, buffers, symbols)
    if arena != 0:
        give_block(arena)
    if record.donated != 0:
        give_up(record, leaves)
    result = outputs[0]
    if record.result != 0:
        result = build(record, outputs)
        drop(outputs, made)
    Py_DecRef(holder)
    return result


def drop(objects: word, count: word) -> None:
    """Releases so many references."""
    i = 0
    while i < count:
        Py_DecRef(objects[i])
        i += 1


def run_long(record: Record, buffers: word, symbols: word, leaves: word) -> None:
    """Runs a program without the interpreter lock; its memory is held meanwhile."""
    count = record.leaves
    held = PyMem_RawMalloc(8 * count + 8)
    i = 0
    while i < count and held != 0:
        x = Array(leaves[i])
        held[i] = 0
        if x.type == context.array_type:
            held[i] = x.buffer
            Py_IncRef(x.buffer)
        i += 1
    if held == 0:  # no memory for the list: keep the lock instead
        call(record.code, buffers, symbols)
    else:
        state = PyEval_SaveThread()
        call(record.code, buffers, symbols)
        PyEval_RestoreThread(state)
        i = 0
        while i < count:
            release(held[i])
            i += 1
        PyMem_RawFree(held)


def give_up(record: Record, leaves: word) -> None:
    """Marks the donated arguments as deleted."""
    i = 0
    while i < record.donated:
        x = Array(leaves[record.donated_leaves[i]])
        if x.type == context.array_type:
            buffer = x.buffer
            Py_IncRef(context.deleted)
            x.buffer = context.deleted
            Py_DecRef(buffer)
        i += 1


def build(record: Record, outputs: word) -> word:
    """The result's structure around the outputs: a new reference, or 0 with an exception."""
    values = stack(record.result_steps + 2)
    argument = values + 8 * record.result_steps + 8
    top = 0
    step = record.result
    end = step + 24 * record.result_steps
    while step < end:
        kind = step[0]
        n = step[1]
        where = step[2]
        step = step + 24
        made = context.none
        if kind == LEAF:
            made = outputs[n]
            Py_IncRef(made)
        elif kind == NONE:
            Py_IncRef(made)
        else:
            top = top - n
            if kind == LIST:
                made = build_list(values + 8 * top, n)
            elif kind == DICT:
                made = build_dict(values + 8 * top, n, where)
            else:
                made = build_tuple(values + 8 * top, n)
                if kind == NAMED and made != 0:
                    items = made
                    argument[0] = items
                    made = PyObject_Vectorcall(where, argument, 1, 0)
                    Py_DecRef(items)
        if made == 0:
            drop(values, top)
            return 0
        values[top] = made
        top += 1
    return values[0]


def build_tuple(values: word, n: word) -> word:
    """A tuple of n values; takes over their references, also if it fails."""
    made = PyTuple_New(n)
    if made == 0:
        drop(values, n)
        return 0
    i = 0
    while i < n:
        PyTuple_SetItem(made, i, values[i])
        i += 1
    return made


def build_list(values: word, n: word) -> word:
    """A list of n values; takes over their references, also if it fails."""
    made = PyList_New(n)
    if made == 0:
        drop(values, n)
        return 0
    i = 0
    while i < n:
        PyList_SetItem(made, i, values[i])
        i += 1
    return made


def build_dict(values: word, n: word, keys: word) -> word:
    """A dict of n keys and values; takes over the values' references, also if it fails."""
    made = PyDict_New()
    failed = made == 0
    i = 0
    while i < n and failed == 0:
        failed = PyDict_SetItem(made, keys[i], values[i]) != 0
        i += 1
    drop(values, n)
    if failed != 0:
        release(made)
        return 0
    return made


# The type of entries.


def entry_new(kind: word, args: word, names: word) -> word:
    """tp_new."""
    self = PyType_GenericAlloc(kind, 0)
    if self != 0:
        entry = Entry(self)
        entry.vectorcall = address_of(call_entry)
        # A class with a method `fallback` has it here too (`NativeRuntime.entry_type`).
        method = PyObject_GetAttrString(kind, text("_fallback_method"))
        if method != 0:
            entry.fallback = method
            entry.is_method = 1
        else:
            PyErr_Clear()
            Py_IncRef(context.none)
            entry.fallback = context.none
    return self


def entry_bind(self: word, instance: word, owner: word) -> word:
    """tp_descr_get: an entry in a class is a method."""
    if instance == 0 or instance == context.none:
        Py_IncRef(self)
        return self
    return PyMethod_New(self, instance)


def entry_traverse(self: word, visit: word, argument: word) -> word:
    """tp_traverse."""
    entry = Entry(self)
    fields = stack(4)
    fields[0] = entry.type
    fields[1] = entry.fallback
    fields[2] = entry.state
    fields[3] = entry.dict
    i = 0
    while i < 4:
        if fields[i] != 0:
            stop = call(visit, fields[i], argument) & 0xFFFFFFFF
            if stop != 0:
                return stop
        i += 1
    return 0


def entry_clear(self: word) -> word:
    """tp_clear."""
    entry = Entry(self)
    entry.index = 0
    fallback = entry.fallback
    state = entry.state
    attributes = entry.dict
    Py_IncRef(context.none)
    entry.fallback = context.none
    entry.state = 0
    entry.dict = 0
    release(fallback)
    release(state)
    release(attributes)
    return 0


def entry_free(self: word) -> None:
    """tp_dealloc."""
    PyObject_GC_UnTrack(self)
    entry = Entry(self)
    kind = entry.type
    if entry.weakrefs != 0:
        PyObject_ClearWeakRefs(self)
    entry.index = 0
    release(entry.fallback)
    release(entry.state)
    release(entry.dict)
    PyObject_GC_Del(self)
    Py_DecRef(kind)
