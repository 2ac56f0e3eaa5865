"""Object files to one image that may lie anywhere in memory: our own linker, for ELF on x86-64.

The code is position independent: references within an image are relative, and are settled before
it goes to disk; what it imports it finds through words of its own.  So a new process places an
image by a copy and a few words, and needs no LLVM, which takes longer to load than a small program
to compile.  What this linker does not know (`Unknown`) is left to LLVM's.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from typing import Any, Final, final

#: Whether images can be made and placed here.
SUPPORTED: Final = (
    sys.platform == "linux" and sys.maxsize > 2**32 and os.uname().machine == "x86_64"
)
PAGE: Final = 4096

# elf.h
_RELOCATABLE: Final = b"\x7fELF\x02\x01\x01"
_SECTION: Final = Struct("<IIQQQQIIQQ")
_SYMBOL: Final = Struct("<IBBHQQ")
_RELOCATION: Final = Struct("<QIIq")
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL, _UNWIND = 1, 2, 4, 8, 9, 0x70000001
_WRITE, _ALLOC, _TLS = 1, 2, 0x400
_LOCAL, _WEAK = 0, 2
_WORD_64, _RELATIVE, _CALL, _THROUGH_WORD = 1, 2, 4, (9, 41, 42)
# sys/mman.h
_READ, _CHANGE, _EXECUTE, _PRIVATE, _ANONYMOUS = 1, 2, 4, 2, 0x20
_FAILED: Final = 2**64 - 1

_WORD: Final = Struct("<Q")
_HALF: Final = Struct("<i")
_JUMP: Final = b"\xff\x25"  # jmp [rip + half]
_MOVE, _ADDRESS = 0x8B, 0x8D  # mov r, [rip + half]; lea r, [rip + half]


class Unknown(Exception):
    """An object file has something that this linker does not know."""


@final
class Image:
    """Code and data as they lie in memory, but for the words that depend on where that is.

    `content`: what is copied to the start.  `size`: bytes in memory; those from `fixed` on may be
    written to.  `exports`: offsets of functions and data.  `imports`: the offsets of the words
    that hold a symbol's address.  `bases`: offsets of words that hold an offset in the image, and
    become addresses.
    """

    __slots__ = ("bases", "content", "exports", "fixed", "imports", "size")

    def __init__(
        self,
        content: Any,
        size: int,
        fixed: int,
        exports: dict[str, int],
        imports: dict[str, list[int]],
        bases: list[int],
    ) -> None:
        self.content, self.size, self.fixed = content, size, fixed
        self.exports, self.imports, self.bases = exports, imports, bases

    def address(self, place: int, symbol: str | int, target: int | None, addend: int = 0) -> None:
        """Notes that a word is the address of a symbol: of an offset here, or of an import."""
        if target is not None:
            _WORD.pack_into(self.content, place, target + addend)
            self.bases.append(place)
        elif addend == 0:
            self.imports.setdefault(str(symbol), []).append(place)
        else:
            raise Unknown(f"an address within {symbol}, which is imported")

    def table(self) -> list[Any]:
        """All but the content, as plain data: `Image(content, *table)`."""
        return [self.size, self.fixed, self.exports, self.imports, self.bases]


@final
class Placed:
    """An image in this process, with the addresses of what it imports; it lives as long as this."""

    __slots__ = ("_size", "address")

    def __init__(self, image: Image, symbols: Mapping[str, int]) -> None:
        self._size = 0
        mmap, mprotect, _ = _calls()
        size = _up(image.size, PAGE)
        base: int = mmap(None, size, _READ | _CHANGE, _PRIVATE | _ANONYMOUS, -1, 0)
        if base == _FAILED:
            raise OSError(ctypes.get_errno(), "there is no memory for machine code")
        self.address, self._size = base, size
        content = bytearray(image.content)
        for name, places in image.imports.items():
            for at in places:
                _WORD.pack_into(content, at, symbols[name])
        for at in image.bases:
            _WORD.pack_into(content, at, base + _WORD.unpack_from(content, at)[0])
        ctypes.memmove(base, bytes(content), len(content))
        if mprotect(base, image.fixed, _READ | _EXECUTE):
            raise OSError(ctypes.get_errno(), "the system refuses to run machine code")

    def __del__(self, leaving: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the process others may still run the code; the system frees it.
        if self._size and not leaving():
            _calls()[2](self.address, self._size)


def linked(objects: Iterable[bytes], names: Iterable[str]) -> Image:
    """The image of object files that may refer to each other; `names` are what is asked of it.

    Unknown if there is something in them that this does not know.
    """
    parts = [_Object(data) for data in objects]
    defined = {name for part in parts for name in part.defined()}
    end = 0
    for part in parts:
        end = part.lay(end, writable=False)
    # Words for the addresses of what is imported, or is to be found through a word; and jumps.
    through = dict.fromkeys(name for part in parts for name in part.through_word(defined))
    first = _up(end, 8)
    words = {name: first + 8 * n for n, name in enumerate(through)}
    jumps = {name: at + 8 * len(words) for name, at in words.items()}
    filled = first + 16 * len(words)
    end = fixed = _up(filled, PAGE)
    for part in parts:
        end = part.lay(end, writable=True)
        filled = end if part.has_data else filled
    content = bytearray(filled)
    for part in parts:
        part.copy(content)
    image = Image(content, end, fixed, {}, {}, [])
    known = _offsets(parts)
    for name, place in words.items():
        jump = jumps[name]
        content[jump : jump + 2] = _JUMP
        _HALF.pack_into(content, jump + 2, place - (jump + 6))
        image.address(place, name, known.get(name))
    for part in parts:
        for place, kind, symbol, addend in part.relocations():
            target = known.get(symbol) if isinstance(symbol, str) else symbol
            if kind == _WORD_64:
                image.address(place, symbol, target, addend)
                continue
            if kind in _THROUGH_WORD:
                if target is not None and _moves(content, kind, place):
                    content[place - 2] = _ADDRESS
                else:
                    target = words.get(str(symbol))
            elif target is None and kind == _CALL:
                target = jumps[str(symbol)]
            if target is None:
                raise Unknown(f"a reference of type {kind} to {symbol}")
            _HALF.pack_into(content, place, target + addend - place)
    image.exports.update((name, known.get(name, -1)) for name in names)
    if -1 in image.exports.values():
        raise Unknown(f"not all of {image.exports} are in the object files")
    image.content = bytes(content)
    return image


def _offsets(parts: Iterable[_Object]) -> dict[str, int]:
    """Where global symbols are; the first of weak ones counts."""
    found, strong = dict[str, int](), set[str]()
    for part in parts:
        for name, (offset, weak) in part.defined().items():
            if weak:
                found.setdefault(name, offset)
                continue
            if name in strong:
                raise Unknown(f"two symbols {name}")
            strong.add(name)
            found[name] = offset
    return found


@final
class _Object:
    """One object file, and where its sections come to lie in the image."""

    __slots__ = ("_data", "_loaded", "_offsets", "_sections", "_symbols", "has_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        kind, machine = int.from_bytes(data[16:18], "little"), int.from_bytes(data[18:20], "little")
        if not data.startswith(_RELOCATABLE) or (kind, machine) != (1, 62):
            raise Unknown("not an object file of ELF for x86-64")
        table = int.from_bytes(data[40:48], "little")
        count, names = (int.from_bytes(data[at : at + 2], "little") for at in (60, 62))
        table_end = table + count * _SECTION.size
        self._sections = list(_SECTION.iter_unpack(data[table:table_end]))
        self._offsets: dict[int, int] = {}
        strings = self._sections[names][4]
        self._loaded = [
            (n, s)
            for n, s in enumerate(self._sections)
            if s[2] & _ALLOC and s[1] != _UNWIND
            and not data.startswith(b".eh_frame\0", strings + s[0])
        ]  # fmt: skip
        for _, s in self._loaded:
            if s[1] not in (_PROGBITS, _NOBITS) or s[2] & _TLS or s[8] > PAGE:
                raise Unknown(f"a section of type {s[1]}, flags {s[2]}, alignment {s[8]}")
        self.has_data = any(s[2] & _WRITE and s[1] == _PROGBITS for _, s in self._loaded)
        self._symbols = self._read_symbols()

    def _read_symbols(self) -> list[tuple[str, int, int, bool]]:
        """(name, section or 0, value, whether weak) of each; local ones have no name here."""
        out = []
        data = self._data
        for s in self._sections:
            if s[1] == _REL:
                raise Unknown("relocations without addends")
            if s[1] != _SYMTAB:
                continue
            strings = self._sections[s[6]][4]
            for at, info, _, section, value, _ in _SYMBOL.iter_unpack(data[s[4] : s[4] + s[5]]):
                name = ""
                if info >> 4 != _LOCAL:
                    name = data[strings + at : data.index(b"\0", strings + at)].decode()
                    if section >= 0xFF00 or info >> 4 > _WEAK:
                        raise Unknown(f"the symbol {name} of section {section}, kind {info}")
                out.append((name, section, value, info >> 4 == _WEAK))
        return out

    def lay(self, end: int, *, writable: bool) -> int:
        """Gives sections their places in the image, from `end` on; the new end."""
        for kind in (_PROGBITS, _NOBITS):
            for n, s in self._loaded:
                if s[1] == kind and bool(s[2] & _WRITE) == writable:
                    self._offsets[n] = _up(end, max(s[8], 1))
                    end = self._offsets[n] + s[5]
        return end

    def copy(self, content: bytearray) -> None:
        """Puts what the file has into the image."""
        for n, s in self._loaded:
            if s[1] == _PROGBITS:
                content[self._offsets[n] : self._offsets[n] + s[5]] = self._data[s[4] : s[4] + s[5]]

    def defined(self) -> dict[str, tuple[int, bool]]:
        """The global symbols that are here: their offsets, once laid out, and whether weak."""
        offsets = self._offsets
        return {
            name: (offsets.get(section, 0) + value, weak)
            for name, section, value, weak in self._symbols
            if name and section
        }

    def _relocated(self) -> Iterator[tuple[int, Iterator[tuple[int, int, int, int]]]]:
        """(section, its relocations: offset, kind, symbol, addend)."""
        loaded = {n for n, _ in self._loaded}
        for s in self._sections:
            if s[1] == _RELA and s[7] in loaded:
                yield s[7], _RELOCATION.iter_unpack(self._data[s[4] : s[4] + s[5]])

    def through_word(self, defined: set[str]) -> Iterator[str]:
        """The global symbols that need a word with their address."""
        for section, relocations in self._relocated():
            start = self._sections[section][4]
            for offset, kind, symbol, _ in relocations:
                name = self._symbols[symbol][0]
                if name not in defined:
                    if name and kind in (_CALL, *_THROUGH_WORD):
                        yield name
                elif kind in _THROUGH_WORD and not _moves(self._data, kind, start + offset):
                    yield name

    def relocations(self) -> Iterator[tuple[int, int, str | int, int]]:
        """(place in the image, kind, name or offset in the image, addend) of each."""
        offsets = self._offsets
        for section, relocations in self._relocated():
            base = offsets[section]
            for offset, kind, symbol, addend in relocations:
                if kind not in _KNOWN:
                    raise Unknown(f"a relocation of type {kind}")
                name, of, value, _ = self._symbols[symbol]
                if not name and of not in offsets:
                    raise Unknown("a reference to a section that is not loaded")
                yield base + offset, kind, name or offsets[of] + value, addend


_KNOWN: Final = frozenset((_WORD_64, _RELATIVE, _CALL, *_THROUGH_WORD))


def _moves(code: bytes | bytearray, kind: int, at: int) -> bool:
    """Whether an instruction loads an address from a word, and may compute it instead."""
    return kind != _THROUGH_WORD[0] and code[at - 2] == _MOVE


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


_found: Final[list[tuple[Any, Any, Any]]] = []


def _calls() -> tuple[Any, Any, Any]:
    """mmap, mprotect, munmap."""
    if not _found:
        c = ctypes.CDLL(None, use_errno=True)
        word, number = ctypes.c_size_t, ctypes.c_int
        c.mmap.restype = word
        c.mmap.argtypes = [ctypes.c_void_p, word, number, number, number, ctypes.c_long]
        c.mprotect.argtypes, c.munmap.argtypes = [word, word, number], [word, word]
        _found.append((c.mmap, c.mprotect, c.munmap))
    return _found[0]
