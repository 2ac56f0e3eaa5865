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
    PyErr_Clear,
    PyErr_NoMemory,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyMem_RawFree,
    PyMem_RawMalloc,
    PyObject_Vectorcall,
    PyTuple_GetItem,
    PyTuple_Size,
    memmove,
)
from .language import call, load8, load32, stack, store32, word
from .match_code import match, scalar, small_integer
from .pool_code import context, give_block, new_buffer, no_room, take_block
from .result_code import build, drop
from .structs import LONG, MISS, STOP, TESTED, Array, Entry, Index, Object, Pattern, Record

COUNT_MASK = (1 << 62) - 1  # the flag bit of vectorcall's count is above
MULTIPLIER = -7046029254386353131  # 2**64 divided by the golden ratio, odd


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
            if found == STOP:
                return MISS
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
    leaves = args
    integers = frame + 32 * count
    if pattern.program != 0:
        leaves = frame + 24 * count
        if match(pattern, args, leaves, integers) == 0:
            return MISS
    i = 0
    while i < count:
        if Array(leaves[i]).type == context.array_class:
            return with_arrays(pattern, leaves, frame, integers)
        i += 1
    return look_up(pattern, leaves, frame, integers)


def with_arrays(pattern: Pattern, leaves: word, frame: word, integers: word) -> word:
    """As `look_up`, with NumPy arrays among the leaves: they become Arrays first.

    That calls Python, which may do anything: meanwhile every leaf and the pattern are held, and
    the index is not looked at afterwards (STOP in place of MISS).
    """
    count = pattern.leaves
    room = PyMem_RawMalloc(8 * count)
    if room == 0:
        return PyErr_NoMemory()
    holder = pattern.holder
    Py_IncRef(holder)
    i = 0
    while i < count:
        Py_IncRef(leaves[i])
        room[i] = leaves[i]
        i += 1
    found = STOP
    if convert(room, count):
        found = look_up(pattern, room, frame, integers)
        if found == MISS:
            found = STOP
    drop(room, count)
    PyMem_RawFree(room)
    Py_DecRef(holder)
    return found


def convert(leaves: word, count: word) -> word:
    """Puts Arrays in the place of NumPy arrays; 0 if one cannot be: the fallback says why."""
    i = 0
    while i < count:
        x = Object(leaves[i])
        if x.type == context.array_class:
            made = PyObject_Vectorcall(context.from_numpy, leaves + 8 * i, 1, 0)
            if made == 0:
                PyErr_Clear()
                return 0
            leaves[i] = made
            Py_DecRef(x)
        i += 1
    return 1


def look_up(pattern: Pattern, leaves: word, frame: word, integers: word) -> word:
    """The result of the record for these leaves; MISS; 0 with an exception."""
    count = pattern.leaves
    data = frame
    scalars = data + 8 * count
    types = scalars + 8 * count
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


def try_row(pattern: Pattern, x: Array, key: word) -> word:
    """As `try_index`, for `x[key]` by a Python integer: nothing but the row is looked at."""
    if pattern == 0:
        return MISS
    buffer = x.buffer
    if buffer == 0 or buffer.type != context.buffer_type:
        return MISS
    aval = x.aval
    sharding = x.sharding
    slot = (((sharding ^ aval) * MULTIPLIER) >> 32) & pattern.mask
    record = Record(pattern.slots[slot])
    while record != 0 and (record.signature[0] != aval or record.signature[1] != sharding):
        slot = (slot + 1) & pattern.mask
        record = Record(pattern.slots[slot])
    if record == 0 or record.flags != 0:
        return MISS
    place = small_integer(key)
    bound = record.bounds[0]
    if place < 0:
        place = place + bound
    if place < 0 or place >= bound:
        return MISS
    kind = record.output_types
    row = new_buffer(kind[1])
    if row == 0:
        return 0
    nbytes = kind[1]
    if nbytes == 4:
        store32(row.address, load32(buffer.address + 4 * place))
    else:
        memmove(row.address, buffer.address + nbytes * place, nbytes)
    return new_array(kind[0], row, kind[2])


# Running.


def run(record: Record, data: word, leaves: word, integers: word) -> word:
    """Runs a record's program; its result, MISS, STOP, or 0 with an exception."""
    if record.donated != 0 and may_give_up(record, leaves) == 0:
        return MISS
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
        if kind[3] != 0:
            donor = Array(leaves[kind[3] - 1])
            buffer = donor.buffer
            Py_IncRef(buffer)
        else:
            buffer = new_buffer(kind[1])
        if buffer == 0:
            break
        x = new_array(kind[0], buffer, kind[2])
        if x == 0:
            break
        at[made] = buffer.address
        outputs[made] = x
        kind = kind + 32
        made += 1
    arena = 0
    if made == record.outputs and record.arena != 0:
        arena = take_block(record.arena)
        at[made] = arena
        if arena == 0:
            no_room(record.arena)
    if made < record.outputs or (record.arena != 0 and arena == 0):
        drop(outputs, made)
        return 0
    # From here on other code may run and clear the table: the record must stay.
    holder = record.holder
    Py_IncRef(holder)
    if record.flags & LONG or record.after != 0:
        run_long(record, buffers, symbols, leaves)
    else:
        call(record.code, buffers, symbols)
    if arena != 0:
        give_block(arena)
    if record.after != 0:
        done = PyObject_Vectorcall(record.after, 0, 0, 0)
        if done == 0:
            drop(outputs, made)
            Py_DecRef(holder)
            return 0
        Py_DecRef(done)
    if record.flags & TESTED and load8(at[made - 1]) != 0:
        drop(outputs, made)
        Py_DecRef(holder)
        return STOP
    if record.donated != 0:
        give_up(record, leaves)
    result = outputs[0]
    if record.result != 0:
        result = build(record, outputs)
        drop(outputs, made)
    Py_DecRef(holder)
    return result


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


def may_give_up(record: Record, leaves: word) -> word:
    """Whether the donated arguments are arrays, passed once, and nobody else uses the memory of
    those that a result takes over.
    """
    i = 0
    while i < record.donated:
        n = record.donated_leaves[i]
        x = Array(leaves[n])
        if x.type != context.array_type:
            return 0
        k = 0
        while k < record.leaves:
            if k != n and leaves[k] == leaves[n]:
                return 0
            k += 1
        i += 1
    kind = record.output_types
    i = 0
    while i < record.outputs:
        if kind[3] != 0:
            donor = Array(leaves[kind[3] - 1])
            buffer = donor.buffer
            if load32(buffer) != 1:  # the count of references: those to buffers are few
                return 0
        kind = kind + 32
        i += 1
    return 1


def give_up(record: Record, leaves: word) -> None:
    """Marks the donated arguments as deleted."""
    i = 0
    while i < record.donated:
        x = Array(leaves[record.donated_leaves[i]])
        if x.type == context.array_type:
            buffer = x.buffer
            Py_IncRef(record.mark)
            x.buffer = record.mark
            Py_DecRef(buffer)
        i += 1
