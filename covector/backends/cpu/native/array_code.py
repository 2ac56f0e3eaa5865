"""Native: the Array type: making and freeing arrays, views for NumPy, conversions to Python."""

from __future__ import annotations

from .capi import (
    Py_DecRef,
    Py_IncRef,
    PyArray_NewFromDescr,
    PyArray_SetBaseObject,
    PyDict_GetItemWithError,
    PyErr_Clear,
    PyErr_NoMemory,
    PyErr_Occurred,
    PyErr_SetString,
    PyFloat_AsDouble,
    PyFloat_FromDouble,
    PyLong_AsLongLongAndOverflow,
    PyLong_FromLongLong,
    PyLong_FromUnsignedLongLong,
    PyMem_RawFree,
    PyMem_RawMalloc,
    PyObject_ClearWeakRefs,
    PyObject_Free,
    PyObject_GetAttr,
    PyObject_Init,
    PyObject_Malloc,
    PyObject_Vectorcall,
    PyTuple_Size,
    memmove,
)
from .language import (
    load8,
    load16,
    load32,
    load_f32,
    load_f64,
    signed8,
    signed16,
    signed32,
    sizeof,
    stack,
    store32,
    text,
    word,
)
from .pool_code import buffer_over, context, new_buffer
from .structs import Array, Buffer, Layout, Object, View

# The Python functions that serve where native code does not: order of `context.fallbacks`.
FALLBACK_ARRAY = 0
FALLBACK_ITEM = 1
FALLBACK_FLOAT = 2
FALLBACK_INT = 3
FALLBACK_INDEX = 4
FALLBACK_BOOL = 5
FALLBACK_READY = 6

ON_STACK = 448  # words; more come from the heap

# numpy flags
CONTIGUOUS = 1
ALIGNED = 256

# Py_buffer request flags
WRITABLE = 1
FORMAT = 4
ND = 8
STRIDES = 24


def new_array(aval: word, buffer: word, sharding: word) -> word:
    """An Array; takes over the reference to `buffer`, also if it fails (0, MemoryError)."""
    memory = PyObject_Malloc(sizeof(Array))
    if memory == 0:
        Py_DecRef(buffer)
        return PyErr_NoMemory()
    x = Array(PyObject_Init(memory, context.array_type))
    Py_IncRef(aval)
    x.aval = aval
    x.buffer = buffer
    if sharding != 0:
        Py_IncRef(sharding)
    x.sharding = sharding
    x.weakrefs = 0
    return x


def wrap(module: word, args: word, count: word) -> word:
    """METH_FASTCALL (aval, buffer[, sharding]): an Array."""
    if count < 2 or count > 3:
        PyErr_SetString(context.type_error, text("wrap(aval, buffer[, sharding])"))
        return 0
    sharding = 0
    if count == 3:
        sharding = args[2]
    Py_IncRef(args[1])
    return new_array(args[0], args[1], sharding)


def replace_buffer(module: word, args: word, count: word) -> word:
    """METH_FASTCALL (array, buffer): gives an Array another buffer, or what stands for one."""
    if count != 2 or Object(args[0]).type != context.array_type:
        PyErr_SetString(context.type_error, text("replace_buffer(array, buffer)"))
        return 0
    x = Array(args[0])
    old = x.buffer
    Py_IncRef(args[1])
    x.buffer = args[1]
    release(old)
    Py_IncRef(context.none)
    return context.none


def attribute_of_aval(self: word, name: word) -> word:
    """A getter: the attribute of the aval that the closure names."""
    return PyObject_GetAttr(Array(self).aval, name)


def release(reference: word) -> None:
    """Py_XDECREF."""
    if reference != 0:
        Py_DecRef(reference)


def free_array(self: word) -> None:
    """tp_dealloc of Array."""
    x = Array(self)
    if x.weakrefs != 0:
        PyObject_ClearWeakRefs(self)
    kind = x.type
    release(x.aval)
    release(x.buffer)
    release(x.sharding)
    PyObject_Free(self)
    Py_DecRef(kind)


def layout_of(aval: word) -> Layout:
    """The layout of an aval, or 0 with an exception set."""
    found = PyDict_GetItemWithError(context.layouts, aval)
    if found != 0:
        return Layout(PyLong_AsLongLongAndOverflow(found, stack(1)))
    if PyErr_Occurred() != 0:
        return Layout(0)
    args = stack(1)
    args[0] = aval
    made = PyObject_Vectorcall(context.make_layout, args, 1, 0)
    if made == 0:
        return Layout(0)
    layout = Layout(PyLong_AsLongLongAndOverflow(made, stack(1)))
    Py_DecRef(made)
    return layout


def buffer_of(self: word) -> Buffer:
    """The memory of an Array once it is there (a borrowed reference), or 0 with an exception."""
    x = Array(self)
    buffer = x.buffer
    if buffer != 0 and buffer.type == context.buffer_type:
        return buffer
    args = stack(1)
    args[0] = self
    resolved = PyObject_Vectorcall(context.resolve, args, 1, 0)
    if resolved == 0:
        return Buffer(0)
    Py_DecRef(resolved)
    if x.buffer == 0 or x.buffer.type != context.buffer_type:
        PyErr_SetString(context.type_error, text("an Array whose buffer is not of the pool"))
        return Buffer(0)
    return x.buffer


def host(module: word, self: word) -> word:
    """METH_O: a read-only NumPy array over the elements; it keeps the buffer alive."""
    x = Array(self)
    if x.type != context.array_type:
        PyErr_SetString(context.type_error, text("host: an Array is wanted"))
        return 0
    buffer = buffer_of(self)
    if buffer == 0:
        return 0
    layout = layout_of(x.aval)
    if layout == 0:
        return 0
    return view_of(buffer, layout)


def view_of(buffer: Buffer, layout: Layout) -> word:
    """A read-only NumPy array over a buffer."""
    Py_IncRef(layout.dtype)
    view = PyArray_NewFromDescr(
        context.array_class,
        layout.dtype,
        layout.ndim,
        layout.shape,
        layout.strides,
        buffer.address,
        CONTIGUOUS | ALIGNED,
        0,
    )
    if view == 0:
        return 0
    Py_IncRef(buffer)
    if PyArray_SetBaseObject(view, buffer) < 0:
        Py_DecRef(view)
        return 0
    return view


def array_to_numpy(self: word, args: word, count: word, names: word) -> word:
    """`__array__`, METH_FASTCALL | METH_KEYWORDS: without arguments here, else in Python."""
    x = Array(self)
    if count == 0 and names == 0:
        buffer = buffer_of(self)
        if buffer == 0:
            return 0
        layout = layout_of(x.aval)
        if layout == 0:
            return 0
        if layout.extended == 0:
            return view_of(buffer, layout)
    return with_self(FALLBACK_ARRAY, self, args, count, names)


def with_self(which: word, self: word, args: word, count: word, names: word) -> word:
    """Calls a Python fallback as a method."""
    return call_method(context.fallbacks[which], self, args, count, names)


def call_method(function: word, self: word, args: word, count: word, names: word) -> word:
    """`function(self, *args)`, with the vectorcall conventions."""
    total = count
    if names != 0:
        total = count + PyTuple_Size(names)
    if total < ON_STACK:
        return forward(function, self, args, count, names, stack(total + 1), total)
    room = PyMem_RawMalloc(8 * total + 8)
    if room == 0:
        return PyErr_NoMemory()
    result = forward(function, self, args, count, names, room, total)
    PyMem_RawFree(room)
    return result


def forward(
    function: word, self: word, args: word, count: word, names: word, room: word, total: word
) -> word:
    """As `call_method`; `room` takes the arguments."""
    room[0] = self
    i = 0
    while i < total:
        room[i + 1] = args[i]
        i += 1
    return PyObject_Vectorcall(function, room, count + 1, names)


def is_numpy(args: word, count: word) -> word:
    """Whether the arguments are (numpy.ndarray itself, int); else sets TypeError."""
    if (
        count == 2
        and Object(args[0]).type == context.array_class
        and Object(args[1]).type == context.int_type
    ):
        return 1
    PyErr_SetString(context.type_error, text("a numpy.ndarray and a number of bytes are wanted"))
    return 0


def adopt(module: word, args: word, count: word) -> word:
    """METH_FASTCALL (array, nbytes): a Buffer over the memory of a NumPy array, which it keeps."""
    if is_numpy(args, count) == 0:
        return 0
    nbytes = PyLong_AsLongLongAndOverflow(args[1], stack(1))
    owner = args[0]
    Py_IncRef(owner)
    buffer = buffer_over((owner + context.array_data)[0], nbytes, owner)
    if buffer == 0:
        Py_DecRef(owner)
    return buffer


def copy_in(module: word, args: word, count: word) -> word:
    """METH_FASTCALL (array, nbytes[, offset]): a Buffer with a copy of bytes of a NumPy array.

    The caller has seen to the order and the size.
    """
    offset = 0
    if count == 3:
        offset = PyLong_AsLongLongAndOverflow(args[2], stack(1))
        count = 2
    if is_numpy(args, count) == 0:
        return 0
    nbytes = PyLong_AsLongLongAndOverflow(args[1], stack(1))
    buffer = new_buffer(nbytes)
    if buffer == 0:
        return 0
    memmove(buffer.address, (args[0] + context.array_data)[0] + offset, nbytes)
    return buffer


def get_buffer(self: word, out: word, request: word) -> word:
    """bf_getbuffer of Array: a read-only view, which holds the buffer, not the array."""
    view = View(out)
    view.obj = 0
    x = Array(self)
    buffer = buffer_of(self)
    if buffer == 0:
        return -1
    layout = layout_of(x.aval)
    if layout == 0:
        return -1
    if layout.format == 0:
        PyErr_SetString(context.buffer_error, text("the buffer protocol lacks this dtype"))
        return -1
    if request & WRITABLE:
        PyErr_SetString(context.buffer_error, text("arrays are immutable: a view is read-only"))
        return -1
    view.buf = buffer.address
    view.len = layout.nbytes
    view.itemsize = layout.itemsize
    store32(out + 32, 1)
    store32(out + 36, layout.ndim)
    view.format = layout.format if request & FORMAT else 0
    view.shape = layout.shape if (request & ND) == ND else 0
    view.strides = layout.strides if (request & STRIDES) == STRIDES else 0
    view.suboffsets = 0
    view.internal = 0
    Py_IncRef(buffer)
    view.obj = buffer
    return 0


# Scalars.  A word of zero without an exception means: not here, ask Python.


def read_scalar(self: word, integral: word) -> word:
    """The only element of an array as a Python scalar; integral: 1 allows integers only."""
    x = Array(self)
    buffer = buffer_of(self)
    if buffer == 0:
        return 0
    layout = layout_of(x.aval)
    if layout == 0 or layout.size != 1 or layout.extended != 0:
        return 0
    data = buffer.address
    kind = layout.kind
    if kind == 102 and integral == 0:  # 'f'
        if layout.itemsize == 4:
            return PyFloat_FromDouble(load_f32(data))
        if layout.itemsize == 8:
            return PyFloat_FromDouble(load_f64(data))
        return 0
    if kind == 105:  # 'i'
        return PyLong_FromLongLong(load_signed(data, layout.itemsize))
    if kind == 117:  # 'u'
        return PyLong_FromUnsignedLongLong(load_unsigned(data, layout.itemsize))
    if kind == 98 and integral == 0:  # 'b'
        truth = context.true if load8(data) != 0 else context.false
        Py_IncRef(truth)
        return truth
    return 0


def load_signed(data: word, itemsize: word) -> word:
    """A signed integer of 1, 2, 4 or 8 bytes."""
    if itemsize == 4:
        return signed32(data)
    if itemsize == 8:
        return data[0]
    if itemsize == 2:
        return signed16(data)
    return signed8(data)


def load_unsigned(data: word, itemsize: word) -> word:
    """An unsigned integer of 1, 2, 4 or 8 bytes."""
    if itemsize == 4:
        return load32(data)
    if itemsize == 8:
        return data[0]
    if itemsize == 2:
        return load16(data)
    return load8(data)


def is_scalar(self: word) -> word:
    """Whether an array has no axes."""
    layout = layout_of(Array(self).aval)
    if layout == 0:
        PyErr_Clear()
        return 0
    return layout.ndim == 0


def fall_back(which: word, self: word) -> word:
    """Calls the Python method, unless an exception is set already."""
    if PyErr_Occurred() != 0:
        return 0
    return with_self(which, self, 0, 0, 0)


def array_item(self: word, args: word, count: word) -> word:
    """`item`, METH_FASTCALL."""
    if count == 0:
        found = read_scalar(self, 0)
        if found != 0:
            return found
        if PyErr_Occurred() != 0:
            return 0
    return with_self(FALLBACK_ITEM, self, args, count, 0)


def array_ready(self: word, nothing: word) -> word:
    """`block_until_ready`, METH_NOARGS."""
    buffer = Array(self).buffer
    if buffer != 0 and buffer.type == context.buffer_type:
        Py_IncRef(self)
        return self
    return with_self(FALLBACK_READY, self, 0, 0, 0)


def array_float(self: word) -> word:
    """nb_float."""
    if is_scalar(self):
        found = read_scalar(self, 0)
        if found != 0:
            if Object(found).type == context.float_type:
                return found
            Py_DecRef(found)
    return fall_back(FALLBACK_FLOAT, self)


def array_int(self: word) -> word:
    """nb_int."""
    if is_scalar(self):
        found = read_scalar(self, 1)
        if found != 0:
            return found
    return fall_back(FALLBACK_INT, self)


def array_index(self: word) -> word:
    """nb_index."""
    if is_scalar(self):
        found = read_scalar(self, 1)
        if found != 0:
            return found
    return fall_back(FALLBACK_INDEX, self)


def array_bool(self: word) -> word:
    """nb_bool: 0, 1, or -1 with an exception."""
    found = read_scalar(self, 0)
    if found == 0:
        found = fall_back(FALLBACK_BOOL, self)
        if found == 0:
            return -1
    answer = truth_of(found)
    Py_DecRef(found)
    return answer


def truth_of(number: word) -> word:
    """Whether a Python float, int or bool is not zero."""
    kind = Object(number).type
    if kind == context.float_type:
        return 0 if PyFloat_AsDouble(number) == 0.0 else 1  # a NaN is true
    if kind == context.bool_type:
        return number == context.true
    overflow = stack(1)
    value = PyLong_AsLongLongAndOverflow(number, overflow)
    return value != 0
