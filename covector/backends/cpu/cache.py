"""The cache on disk: bytes by key, for object code and for whole compiled programs.

What is read is run as machine code, so nothing is believed: the folder is the user's own, closed
to others (0700) and opened without following a link; an entry is a plain file of the user's, and
what the open file holds must match its key and digest.  Whatever is wrong counts as absent; if
the folder is wrong the cache is off.  Writes go to a temporary file that takes the entry's place
at once, so a reader sees all of an entry or none, whoever dies or races.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
from typing import Any, Final, final

from covector._base.config import config
from covector._base.digest import digest

MAGIC: Final = b"covector-cache-2"
#: Bytes kept if the option sets no limit of its own.
LIMIT: Final = 1 << 30
#: The folder with the entries, inside the one that the user names.
FOLDER: Final = "objects-1"
_HEADER: Final = len(MAGIC) + 32 + 32 + 8
_LARGEST: Final = 1 << 28
_POSIX: Final = os.name == "posix"
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
#: An entry's time of use is noted this often (seconds); temporary files older than this are litter.
_STALE: Final = 3600.0


@final
class DiskCache:
    """Entries in one folder.  `reason` says why it is off, or is None."""

    __slots__ = ("_fd", "_limit", "_lock", "_path", "_total", "reason")

    def __init__(self, root: str | os.PathLike[str], limit: int = LIMIT) -> None:
        self._path = os.path.join(root, FOLDER)
        self._limit = limit
        self._lock = threading.Lock()
        self._total: int | None = None  # bytes in the folder, once known
        self._fd: int | None = None
        self.reason: str | None = None
        try:
            self._open()
        except (OSError, ValueError) as error:
            self.reason = f"{self._path}: {error}"

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._path, 0o700)
        if not _POSIX:
            info = os.lstat(self._path)
            reparse = getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0x400)
            if not stat.S_ISDIR(info.st_mode) or info.st_file_attributes & reparse:  # type: ignore[attr-defined]
                raise ValueError("not a plain folder")
            return
        fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW)
        info = os.fstat(fd)
        if info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
            os.close(fd)
            raise ValueError("not the user's own, or open to others")
        self._fd = fd

    def __del__(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)

    def lookup(self, key: bytes | str) -> bytes | None:
        """What was stored under `key`, or None."""
        if self.reason is not None:
            return None
        name = _name(key)
        try:
            fd = self._at(name.hex(), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None
        try:
            return self._read(fd, name)
        except OSError:
            return None
        finally:
            os.close(fd)

    def _read(self, fd: int, name: bytes) -> bytes | None:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or not _HEADER <= info.st_size <= _LARGEST:
            return None
        if _POSIX and (info.st_uid != os.geteuid() or info.st_mode & 0o022):
            return None
        data = _read_all(fd, info.st_size)
        payload = data[_HEADER:]
        if data[:_HEADER] != _header(name, payload):
            return None
        if time.time() - info.st_mtime > _STALE and os.utime in os.supports_fd:
            with contextlib.suppress(OSError):
                os.utime(fd)
        return payload

    def store(self, key: bytes | str, payload: bytes) -> None:
        """Keeps `payload` under `key`; a failure (a full disk, say) is no error."""
        if self.reason is not None or len(payload) + _HEADER > _LARGEST:
            return
        name = _name(key)
        temporary = f"tmp-{os.getpid()}-{os.urandom(8).hex()}"
        try:
            fd = self._at(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except OSError:
            return
        try:
            try:
                _write_all(fd, _header(name, payload) + payload)
            finally:
                os.close(fd)
            self._replace(temporary, name.hex())
        except OSError:
            with contextlib.suppress(OSError):
                self._unlink(temporary)
            return
        self._account(len(payload) + _HEADER)

    # The folder, through its descriptor where the system can

    def _at(self, name: str, flags: int) -> int:
        if self._fd is None:
            return os.open(os.path.join(self._path, name), flags | _NOFOLLOW | _BINARY, 0o600)
        return os.open(name, flags | _NOFOLLOW, 0o600, dir_fd=self._fd)

    def _replace(self, old: str, new: str) -> None:
        if self._fd is None:
            os.replace(os.path.join(self._path, old), os.path.join(self._path, new))
        else:
            os.replace(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def _unlink(self, name: str) -> None:
        if self._fd is None:
            os.unlink(os.path.join(self._path, name))
        else:
            os.unlink(name, dir_fd=self._fd)

    # The size

    def _account(self, size: int) -> None:
        with self._lock:
            if self._total is not None:
                self._total += size
                if self._total <= self._limit:
                    return
            with contextlib.suppress(OSError):
                self._total = self._trim()

    def _trim(self) -> int:
        """Removes what was not used for longest until the rest fits well; the bytes left."""
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        with os.scandir(self._path if self._fd is None else self._fd) as folder:
            for item in folder:
                with contextlib.suppress(OSError):
                    info = item.stat(follow_symlinks=False)
                    if item.name.startswith("tmp-"):
                        if now - info.st_mtime > _STALE:
                            self._unlink(item.name)
                        continue
                    entries.append((info.st_mtime, info.st_size, item.name))
        total = sum(size for _, size, _ in entries)
        if total <= self._limit:
            return total
        for _, size, name in sorted(entries):
            if total <= self._limit * 4 // 5:
                break
            with contextlib.suppress(OSError):
                self._unlink(name)
            total -= size
        return total


def _name(key: bytes | str) -> bytes:
    return digest(key).digest()


def _header(name: bytes, payload: bytes) -> bytes:
    return MAGIC + name + digest(payload).digest() + len(payload).to_bytes(8, "little")


def _read_all(fd: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = os.read(fd, size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def default_root() -> str | None:
    """The platform's place for a user's caches; None if there is none."""
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # nobody knows
        return None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return os.path.join(base or os.path.join(home, "AppData", "Local"), "covector", "cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "covector")
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".cache"), "covector")


_lock = threading.Lock()
_open: Final[dict[Any, DiskCache]] = {}


def current() -> DiskCache | None:
    """The cache that the options name now; None if they turn it off."""
    if not config.enable_compilation_cache:
        return None
    root = config.compilation_cache_dir or os.environ.get("COVECTOR_CACHE_DIR") or default_root()
    if root is None:
        return None
    limit = config.compilation_cache_max_size
    key = (str(root), limit)
    found = _open.get(key)
    if found is None:
        with _lock:
            found = _open.setdefault(key, DiskCache(root, limit if limit >= 0 else LIMIT))
    return found


def lookup(key: bytes | str) -> bytes | None:
    """What the current cache holds under `key`, or None."""
    cache = current()
    return None if cache is None else cache.lookup(key)


def store(key: bytes | str, payload: bytes) -> None:
    """Keeps `payload` under `key` in the current cache."""
    cache = current()
    if cache is not None:
        cache.store(key, payload)
