"""`Array`, the concrete array: an abstract value and the buffer with its elements, dense, C order.

What needs no operation is here: attributes, conversions to Python, printing, pickling.
Operations (`+`, `sum`, `at`, …) are installed by the wiring through `install_methods`.
`buffer` holds memory (a native buffer, or a read-only NumPy array over pool memory), or one of
the three final classes below that say why there is none.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, final

import numpy as np

from covector import dtypes
from covector._base.errors import JaxRuntimeError
from covector.ir.avals import ShapedArray
from covector.ir.values import typeof, typers
from covector.runtime import device as devices
from covector.runtime.native import native
from covector.runtime.placement import Shard, by_device
from covector.runtime.pool import ALIGNMENT, pool
from covector.trace.tracer import Tracer


@final
class Deleted:
    """In place of a buffer that was given up: by `delete()`, or donated to a program."""

    __slots__ = ("by",)

    def __init__(self, by: object) -> None:
        self.by = by

    def resolve(self, x: Array) -> NoReturn:
        """Raises: there is nothing any more."""
        by = "" if self.by == "delete()" else f" It was {self.by}."
        dims = ",".join(map(str, x.aval.shape))
        raise RuntimeError(f"Array has been deleted with shape={x.aval.dtype}[{dims}].{by}")

    def is_ready(self) -> bool:
        return True


@final
class Failed:
    """In place of a buffer whose computation failed: every use raises the error."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def resolve(self, x: Array) -> NoReturn:
        """Raises the error of the computation."""
        if isinstance(self.error, JaxRuntimeError):
            raise self.error
        raise JaxRuntimeError(f"the computation of this array failed: {self.error}") from self.error

    def is_ready(self) -> bool:
        return True


@final
class Pending:
    """In place of a buffer that another thread computes now.

    `by`: whose `wait_for(event)` waits for it; None: anybody may wait.  `done`: the event, which
    results of one program share.
    """

    __slots__ = ("by", "done", "result")

    def __init__(self, by: Any = None, done: threading.Event | None = None) -> None:
        self.done = done or threading.Event()
        self.by, self.result = by, None

    def fulfil(self, buffer: Any) -> None:
        """Hands over the memory, or a `Failed`."""
        self.result = buffer
        self.done.set()

    def resolve(self, x: Array) -> Any:
        """Waits for the memory."""
        if not self.done.is_set():
            if self.by is None:
                self.done.wait()
            else:
                self.by.wait_for(self.done)
        if x.buffer is self:
            replace_buffer(x, self.result)
        return memory(x)

    def is_ready(self) -> bool:
        return self.done.is_set()


@final
class Watched:
    """In place of a buffer while somebody wants to know whether its elements are looked at."""

    __slots__ = ("behind", "notes", "number")

    def __init__(self, behind: Any, notes: set[int], number: int) -> None:
        self.behind, self.notes, self.number = behind, notes, number

    def resolve(self, x: Array) -> Any:
        """Notes that the elements are wanted; the buffer."""
        self.notes.add(self.number)
        if x.buffer is self:
            replace_buffer(x, self.behind)
        return self.behind.resolve(x) if isinstance(self.behind, GONE) else self.behind

    def is_ready(self) -> bool:
        return not isinstance(self.behind, GONE) or self.behind.is_ready()

    def __getattr__(self, name: str) -> Any:
        # Another thread, which took this for the buffer that it was a moment ago.
        self.notes.add(self.number)
        return getattr(self.behind, name)


@contextlib.contextmanager
def watch(numbered: Sequence[tuple[int, Any]]) -> Generator[set[int]]:
    """Meanwhile, the numbers of those arrays whose elements are looked at come into the set.

    Of a tracer, the arrays in it.
    """
    notes: set[int] = set()
    watched: list[tuple[Array, Watched]] = []
    for number, value in numbered:
        for x in _arrays_in(value):
            if not isinstance(x.buffer, (Deleted, Failed)):
                stand_in = Watched(x.buffer, notes, number)
                watched.append((x, stand_in))
                replace_buffer(x, stand_in)
    try:
        yield notes
    finally:
        for x, stand_in in reversed(watched):
            if x.buffer is stand_in:
                replace_buffer(x, stand_in.behind)


def _arrays_in(x: Any) -> list[Array]:
    if type(x) is Array:
        return [x]
    found: list[Array] = []
    for name in getattr(type(x), "__slots__", ()) if isinstance(x, Tracer) else ():
        found += _arrays_in(getattr(x, name, None))
    return found


#: What a buffer slot may hold instead of memory.
GONE: Final = (Deleted, Failed, Pending, Watched)

_native: Final = native()


def _with_native_parts(cls: type) -> Any:
    """The class with C fields and native special methods, where the native runtime is there."""
    return cls if _native is None else _native.array_type(cls)


@final
@_with_native_parts
class Array:
    """An array on a device; immutable.  Made by functions such as `numpy.array`, not by its class.

    >>> import covector.numpy as jnp                                    # doctest: +SKIP
    >>> jnp.array([1.0, 2.0])                                           # doctest: +SKIP
    Array([1., 2.], dtype=float32)
    """

    # `_sharding` is unset where nobody chose a place: most arrays, and the compiled entry
    # points read it as a null pointer.
    __slots__ = ("__weakref__", "_sharding", "aval", "buffer")

    aval: ShapedArray
    buffer: Any

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "Array is not a constructor: make arrays with numpy.array, numpy.asarray or device_put"
        )

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("Array has no subclasses")

    # Type.

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, one an axis."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.aval.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.nbytes

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python scalar and yields to others."""
        return self.aval.weak_type

    @property
    def __numpy_dtype__(self) -> Any:
        return self.aval.dtype

    # State and place.

    def block_until_ready(self) -> Array:
        """Waits until the elements are computed; returns the array itself."""
        memory(self)
        return self

    def is_ready(self) -> bool:
        """Whether the elements are there, so that using them will not wait."""
        buffer = self.buffer
        return not isinstance(buffer, GONE) or buffer.is_ready()

    def copy_to_host_async(self) -> None:
        """Nothing to do where the host and the device share memory."""

    def delete(self) -> None:
        """Gives the memory back now; later uses of the array raise RuntimeError."""
        if not isinstance(self.buffer, Deleted):
            replace_buffer(self, Deleted("delete()"))

    def is_deleted(self) -> bool:
        """Whether the memory was given up, by `delete` or by donation."""
        return isinstance(self.buffer, Deleted)

    @property
    def sharding(self) -> Any:
        """How the elements are spread over devices."""
        try:
            return self._sharding
        except AttributeError:
            return default_sharding[0](devices.default_device())

    @property
    def committed(self) -> bool:
        """Whether somebody chose the device (`device_put(x, device)`)."""
        return hasattr(self, "_sharding")

    _committed = committed

    @property
    def device(self) -> Any:
        """The device, or the sharding of an array on several."""
        sharding = self.sharding
        held = sharding.device_set
        return next(iter(held)) if len(held) == 1 else sharding

    def devices(self) -> set[Any]:
        """The devices that hold elements."""
        return set(self.sharding.device_set)

    def platform(self) -> str:
        """The name of the devices' platform, such as 'cpu'."""
        return next(iter(self.sharding.device_set)).platform

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all elements."""
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds all elements."""
        return self.sharding.is_fully_replicated

    def addressable_data(self, index: int) -> Array:
        """The part that the `index`-th device of this process holds."""
        return self.addressable_shards[index].data

    @property
    def addressable_shards(self) -> list[Any]:
        """The parts that this process holds, one a device."""
        return shards(self)

    @property
    def global_shards(self) -> list[Any]:
        """The parts of all processes; `data` is None for those of others."""
        return shards(self)

    def on_device_size_in_bytes(self) -> int:
        """Bytes the elements take."""
        return self.aval.nbytes

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element; valid while the array lives."""
        return host(self).ctypes.data

    @property
    def traceback(self) -> None:
        """Where the array was made: not recorded."""
        return None

    @property
    def __cuda_array_interface__(self) -> NoReturn:
        raise AttributeError("__cuda_array_interface__ is only defined for arrays on a GPU.")

    def clone(self) -> Array:
        """Another array with the same elements, in memory of its own."""
        return like(self, duplicate(self))

    # To NumPy and back.

    def __array__(
        self, dtype: Any = None, context: None = None, copy: bool | None = None
    ) -> np.ndarray:
        view = _numbers(self)
        if copy is None and dtype is None:
            return view
        # A copy has to be writable; `astype` gives a fresh one.
        return np.array(view, dtype, copy=copy)

    def __reduce__(self) -> Any:
        aval = self.aval
        return rebuild, (np.array(host(self)), aval.dtype, aval.weak_type)

    def __copy__(self) -> Array:
        return like(self, duplicate(self))

    def __deepcopy__(self, memo: Any) -> Array:
        return like(self, duplicate(self))

    # To Python.

    def item(self, *args: Any) -> bool | int | float | complex:
        """One element as a Python scalar: the only one, or that at an index.

        Raises ValueError if there is no index and not exactly one element, IndexError for an
        index out of bounds.
        """
        return plain(_numbers(self)).item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return plain(_numbers(self)).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of the elements."""
        return host(self).tobytes(order)  # type: ignore[arg-type]

    def __bytes__(self) -> bytes:
        return host(self).tobytes()

    def __float__(self) -> float:
        return float(_scalar(self))

    def __int__(self) -> int:
        return int(_scalar(self))

    def __complex__(self) -> complex:
        return complex(_scalar(self))

    def __bool__(self) -> bool:
        aval = self.aval
        if aval.size != 1 or isinstance(aval.dtype, dtypes.ExtendedDType):
            _no_truth(aval)
        return bool(plain(host(self)).item())

    def __index__(self) -> int:
        return _index(self)

    def __hex__(self) -> str:
        return hex(_index(self))

    def __oct__(self) -> str:
        return oct(_index(self))

    def __len__(self) -> int:
        shape = self.aval.shape
        if not shape:
            raise TypeError("len() of unsized object: the array has no axis")
        return shape[0]

    def __iter__(self) -> Iterator[Array]:
        aval = self.aval
        if not aval.shape:
            raise TypeError("iteration over a 0-d array")
        row = ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)
        view, size = host(self), row.nbytes
        return (like(self, copy_part(view, i, size), row) for i in range(len(view)))

    def __reversed__(self) -> Iterator[Array]:
        return reversed(list(self))

    def __setitem__(self, i: Any, x: Any) -> NoReturn:
        raise TypeError(
            "Arrays are immutable: there is no assignment in place. Instead of x[idx] = y, "
            "use x = x.at[idx].set(y) (or .add, .multiply, … of `at`)"
        )

    # Printing.

    def __repr__(self) -> str:
        return representation(self)

    def __str__(self) -> str:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            return representation(self)
        return str(host(self))

    def __format__(self, spec: str) -> str:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            return format(representation(self), spec)
        view = host(self)
        return format(view[()], spec) if view.ndim == 0 else format(view, spec)


_new: Final = object.__new__


def _wrap(aval: ShapedArray, buffer: Any) -> Array:
    """The array of type `aval` whose elements are in `buffer`."""
    x = _new(Array)
    x.aval = aval
    x.buffer = buffer
    return x


def _replace_buffer(x: Array, buffer: Any) -> None:
    """Gives an array another buffer, or what stands for one."""
    x.buffer = buffer


def like(x: Array, buffer: Any, aval: ShapedArray | None = None) -> Array:
    """An array in the same place as `x`, of its type unless `aval` is given."""
    new = wrap(x.aval if aval is None else aval, buffer)
    if hasattr(x, "_sharding"):
        new._sharding = x._sharding
    return new


def memory(x: Array) -> Any:
    """The buffer of `x`, once its elements are there; raises if there are none."""
    buffer = x.buffer
    return buffer.resolve(x) if isinstance(buffer, GONE) else buffer


def _host(x: Array) -> np.ndarray:
    """A read-only NumPy array over the elements of `x`; keeps their memory alive.

    Arrays of an extended dtype show the integers underneath.
    """
    buffer = x.buffer
    return buffer.resolve(x) if isinstance(buffer, GONE) else buffer


def _copy_in(source: np.ndarray) -> Any:
    """A buffer with a copy of the elements of `source`, in C order."""
    target = pool.empty(source.shape, source.dtype)
    target[...] = source
    return _freeze(target, target.nbytes)


class _Frozen:
    """Memory that NumPy may read only: a view of it cannot be made writable again."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: np.ndarray, nbytes: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (owner.ctypes.data, True),
        }


def _copy_part(source: np.ndarray, number: int, nbytes: int) -> Any:
    """A buffer with a copy of `source[number]`, which takes so many bytes."""
    return _copy_in(np.asarray(source[number]))


def _freeze(elements: np.ndarray, nbytes: int) -> Any:
    """A read-only array over the memory of `elements`, which are dense."""
    if nbytes:
        frozen = np.asarray(_Frozen(elements, nbytes))
        return frozen.view(elements.dtype).reshape(elements.shape)
    elements.flags.writeable = False
    return elements


if _native is None:
    wrap, replace_buffer, copy_part = _wrap, _replace_buffer, _copy_part
    host, copy_in, _keep = _host, _copy_in, _freeze
else:
    wrap, replace_buffer = _native.wrap, _native.replace_buffer
    host, _keep = _native.host, _native.adopt

    def copy_in(source: np.ndarray) -> Any:
        """A buffer with a copy of the elements of `source`, in C order."""
        if type(source) is not np.ndarray or not source.flags.c_contiguous:
            source = np.array(source, order="C", subok=False)
        return _native.copy_in(source, source.nbytes)  # type: ignore[union-attr]

    def copy_part(source: np.ndarray, number: int, nbytes: int) -> Any:
        """A buffer with a copy of `source[number]`, which takes so many bytes."""
        return _native.copy_in(source, nbytes, number * nbytes)  # type: ignore[union-attr]

    pool.use(_native.allocator)


#: Below this many bytes a copy is cheaper than keeping somebody's memory.
_SMALL: Final = 4096


def keep(source: np.ndarray) -> Any:
    """A buffer of the memory of `source`: dense, aligned, and written to by nobody any more."""
    return _keep(source.view(np.ndarray), source.nbytes)


def take(source: np.ndarray) -> Any:
    """A buffer of the memory of `source`, which is given away; a copy if it is not as wanted."""
    if source.nbytes < _SMALL or not source.flags.c_contiguous:
        return copy_in(source)
    return copy_in(source) if source.ctypes.data % ALIGNMENT else keep(source)


def from_numpy(x: Any, aval: ShapedArray | None = None, *, give: bool = False) -> Array:
    """An Array with the elements of `x`, a NumPy array or a NumPy or Python scalar.

    aval: the type wanted, else that of `x` (64-bit types narrow unless `enable_x64`).
    give: nobody will write to `x` any more, so its memory may be kept instead of copied.

    >>> from_numpy(np.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    """
    if aval is None:
        aval = typeof(x)
    elements = np.asarray(x, dtypes.physical_dtype(aval.dtype))
    if elements.shape != aval.shape:
        raise ValueError(f"from_numpy: {aval.str_short()} was wanted; got shape {elements.shape}")
    mine = give or (elements is not x and not isinstance(x, np.ndarray))
    return wrap(aval, take(elements) if mine else copy_in(elements))


if _native is not None:
    _native.connect(memory, from_numpy)


def duplicate(x: Array) -> Any:
    """A buffer with a copy of the elements of `x`."""
    return copy_in(host(x))


def rebuild(elements: np.ndarray, dtype: Any, weak_type: bool) -> Array:
    """What a pickled array is made from."""
    # Stored from a build with other defaults, a 64-bit array stays one.
    shape = elements.shape
    return wrap(ShapedArray(shape, dtype, weak_type), copy_in(elements))


_PLAIN: Final = {"f": np.float32, "i": np.int8, "u": np.uint8}


def plain(view: np.ndarray) -> np.ndarray:
    """`view` with elements that Python knows: bfloat16 and float8 become float32, int4 int8."""
    dtype = view.dtype
    return view.astype(_PLAIN[dtypes.kind_of(dtype)]) if dtype.isbuiltin == 2 else view


def _numbers(x: Array) -> np.ndarray:
    """`host(x)`, if its elements are numbers."""
    if isinstance(x.aval.dtype, dtypes.ExtendedDType):
        raise TypeError(
            f"an array of dtype {x.aval.dtype} has no NumPy form; "
            f"random.key_data(keys) gives the integers underneath"
        )
    return host(x)


def _scalar(x: Array) -> Any:
    aval = x.aval
    if aval.ndim:
        raise TypeError(
            f"Only scalar arrays can be converted to Python scalars; got arr.ndim={aval.ndim}"
        )
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        raise TypeError(f"an array of dtype {aval.dtype} is not a number")
    return plain(host(x)).item()


def _index(x: Array) -> int:
    value = plain(host(x)).item() if not x.aval.ndim else None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"Only integer scalar arrays can be converted to a scalar index; "
            f"got {x.aval.str_short()}"
        )
    return value


def _no_truth(aval: ShapedArray) -> NoReturn:
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        raise TypeError(f"an array of dtype {aval.dtype} cannot be converted to a boolean")
    if aval.size == 0:
        raise ValueError(
            "The truth value of an empty array is ambiguous. "
            "Use `array.size > 0` to check that an array is not empty."
        )
    raise ValueError(
        "The truth value of an array with more than one element is ambiguous. "
        "Use a.any() or a.all()"
    )


def representation(x: Array) -> str:
    """As JAX prints: `Array([1., 2.], dtype=float32)`."""
    aval, view = x.aval, host(x)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        words = view[..., None].view(np.uint32)
        return f"Array({aval.shape}, dtype={aval.dtype}) overlaying:\n{words}"
    name = type(x).__name__
    notes = f"dtype={aval.dtype}" + (", weak_type=True)" if aval.weak_type else ")")
    if aval.size == 0:
        return f"{name}([], shape={aval.shape}, {notes}"
    text = np.array2string(view, prefix=f"{name}(", suffix=",", separator=", ")
    last = len(name) + 1 + len(text) if "\n" not in text else len(text) - text.rindex("\n") - 1
    fits = last + len(notes) + 2 <= np.get_printoptions()["linewidth"]
    gap = " " if fits else "\n" + " " * (len(name) + 1)
    return f"{name}({text},{gap}{notes}"


#: Makes the sharding of an array on one device; the wiring puts the real class here.
default_sharding: list[Callable[[Any], Any]] = []


def shards(x: Array) -> list[Shard]:
    """The parts of `x`, one a device."""

    def part(index: tuple[slice, ...], device: Any) -> Array:
        if all(s == slice(None) for s in index):
            if x.sharding.num_devices == 1:
                return x
            found = like(x, memory(x))
        else:
            found = x[index]  # type: ignore[index]
        found._sharding = default_sharding[0](device)
        return found

    return by_device(x, part)


def install_methods(methods: Mapping[str, Any]) -> None:
    """Adds operations to the class: functions, properties or descriptors by name.

    Iteration stays as it is here: a concrete array needs no operation for it.
    """
    for name, method in methods.items():
        if name in ("__iter__", "__reversed__"):
            continue
        if _native is None or not _native.set_method(name, method):
            setattr(Array, name, method)


typers[Array] = operator.attrgetter("aval")
