"""The oracle's answers, on record: compiling is four fifths of the time that it takes to ask it.

What it answers depends on its version, on the program that it lowers a function to, constants
included, and on the arguments. A digest of these is the key of an answer in tests/answers. So a
case that is new or changed is not on record and is asked at once, and so is every 32nd case,
whatever is on record. COVECTOR_ORACLE=live asks all; `add` asks what is not on record and adds it;
`write` (make oracle) asks all and writes the books of the tests that run anew.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BOOKS = Path(__file__).parent / "answers"
MODE = os.environ.get("COVECTOR_ORACLE", "record")
#: One answer of so many is asked for in any case.
ANEW = 32


class Array(np.ndarray):
    """An array of an answer: NumPy's, that knows whether its type is weak."""

    weak_type = False


def answer(book: str, fun: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """`fun(*args)` by the oracle, compiled whole: a pytree with `Array`s, of keys their words.

    What of the result is no array of the oracle's stays as it is.  book: the file of answers that
    its own is in.  options: those of the oracle's compiler.
    """
    try:
        question = Question(fun, args, options)
    except Exception:  # it looks at values, or refuses, which may be what is asked for
        return fun(*args)
    found = question.recorded(book)
    if found is None:
        found = [np.asarray(x) for x in question.lowered.compile()(*args)]
        keep(book, question.key, found)
    return question.filled(found)


def given(book: str, fun: Callable[..., Any], *args: Any) -> Any:
    """As `answer`, where the oracle is to run its operations one by one."""
    try:
        question = Question(fun, args, {"one by one": True})
    except Exception:
        return fun(*args)
    found = question.recorded(book)
    if found is not None:
        return question.filled(found)
    result = fun(*args)
    if question.describes(result):
        keep(book, question.key, [np.asarray(x) for x in question.split(result)[0]])
    return result


class Question:
    """A program of the oracle: `fun` of `args`, lowered."""

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...], options: Any) -> None:
        jax = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2")
        self.jax, self.rest, self.weak = jax, [], []

        def arrays(*xs: Any) -> list[Any]:
            found, self.rest = self.split(fun(*xs))
            self.weak = [x.weak_type for x in found]
            return found

        flags = {k: v for k, v in options.items() if k.startswith("xla_")}
        # Unused arguments stay, so that the text says which of them are used.
        how = {"compiler_options": flags or None, "keep_unused": True}
        self.lowered = jax.jit(arrays, **how).lower(*args)
        leaves = jax.tree.leaves(args)
        given = [np.asarray(self.words(x) if isinstance(x, jax.Array) else x) for x in leaves]
        head = f"{jax.__version__} {sorted(options.items())}"
        self.key = key_of(f"{head} {self.lowered.as_text()}", given)

    def words(self, x: Any) -> Any:
        """Of a key its words."""
        is_key = self.jax.numpy.issubdtype(x.dtype, self.jax.dtypes.prng_key)
        return self.jax.random.key_data(x) if is_key else x

    def split(self, result: Any) -> tuple[list[Any], list[Any]]:
        """(the arrays, all else: other leaves, `Array` for each array, and the structure)."""
        leaves, structure = self.jax.tree.flatten(result)
        is_array = [isinstance(x, self.jax.Array) for x in leaves]
        arrays = [self.words(x) for x, yes in zip(leaves, is_array, strict=True) if yes]
        return arrays, [
            *(Array if yes else x for x, yes in zip(leaves, is_array, strict=True)), structure,
        ]  # fmt: skip

    def filled(self, arrays: Sequence[np.ndarray]) -> Any:
        """The result, with these arrays."""
        *leaves, structure = self.rest
        each = map(_typed, arrays, self.weak)
        return structure.unflatten([next(each) if x is Array else x for x in leaves])

    def describes(self, result: Any) -> bool:
        """Whether the result of operations one by one has the types of the program."""
        arrays, rest = self.split(result)
        types = [(x.dtype, x.shape, x.weak_type) for x in arrays]
        infos = self.lowered.out_info
        mine = [(t.dtype, t.shape, weak) for t, weak in zip(infos, self.weak, strict=True)]
        return types == mine and repr(rest) == repr(self.rest)

    def recorded(self, book: str) -> list[np.ndarray] | None:
        """The arrays on record, unless there are none or the oracle is asked in any case."""
        return on_record(book, self.key, self.lowered.out_info)


def _typed(x: np.ndarray, weak: bool) -> Array:
    out = x.view(Array)
    out.weak_type = weak
    return out


def once(
    book: str, program: str, args: Sequence[Any], types: Sequence[Any], ask: Callable[[], Any]
) -> list[np.ndarray]:
    """The arrays that `ask` gives: those of a program, told by all of its text, of arguments.

    For what cannot be lowered.  types: of the results, with `dtype` and `shape`.
    """
    version = pytest.importorskip("jax", reason="the oracle: pip install jax==0.10.2").__version__
    key = key_of(f"{version} {program}", [np.asarray(x) for x in args])
    found = on_record(book, key, types)
    if found is None:
        found = [np.asarray(x) for x in ask()]
        keep(book, key, found)
    return found


def key_of(program: str, arrays: Sequence[np.ndarray]) -> str:
    """The digest of a program and its arguments."""
    digest = hashlib.sha256(program.encode())
    for x in arrays:
        digest.update(f"{x.dtype} {x.shape} ".encode())
        digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()[:24]


def anew(key: str) -> bool:
    """Whether to ask, whatever is on record."""
    return MODE in ("live", "write") or (MODE != "add" and int(key[:8], 16) % ANEW == 0)


def on_record(book: str, key: str, types: Sequence[Any]) -> list[np.ndarray] | None:
    """An answer, as arrays of these types, unless it is to be asked for."""
    line = None if anew(key) else opened(book).get(key)
    return None if line is None else [
        _array(text, np.dtype(t.dtype), t.shape) for text, t in zip(line, types, strict=True)
    ]  # fmt: skip


def _array(text: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    data = base64.b64decode(text)
    if dtype.itemsize == 0:  # float0, the tangents of integers: a shape without values
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype).reshape(shape).copy()


@functools.cache
def opened(book: str) -> dict[str, list[str]]:
    """Key -> the arrays as text."""
    path = BOOKS / f"{book}.txt"
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return {key: rest for key, *rest in (line.split(" ") for line in lines)}


def keep(book: str, key: str, leaves: Sequence[np.ndarray]) -> None:
    """Notes an answer, for `bind`; the processes of a test run each have their own notes."""
    if MODE in ("add", "write"):
        BOOKS.mkdir(exist_ok=True)
        texts = [base64.b64encode(np.ascontiguousarray(x).tobytes()).decode() for x in leaves]
        with open(BOOKS / f"{book}.{os.getpid()}.notes", "a", encoding="ascii") as notes:
            print(key, *texts, file=notes)


def bind() -> None:
    """Puts all notes into their books, at the end of a run that made some."""
    if MODE not in ("add", "write"):
        return
    fresh: dict[str, set[str]] = {}
    for path in BOOKS.glob("*.notes"):
        lines = path.read_text("ascii").splitlines()
        fresh.setdefault(path.name.split(".")[0], set()).update(lines)
        path.unlink()
    for book, found in fresh.items():
        path = BOOKS / f"{book}.txt"
        old = path.read_text("ascii").splitlines() if MODE == "add" and path.exists() else []
        answers = {line.partition(" ")[0]: line for line in (*old, *sorted(found))}
        text = "".join(f"{line}\n" for _, line in sorted(answers.items()))
        path.write_text(text, "ascii", newline="\n")
