"""The cache on disk: what it keeps, what it refuses to believe, and who may race or die."""

import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from covector._base.config import config
from covector._base.digest import digest
from covector.backends.cpu import cache
from covector.backends.cpu.cache import FOLDER, DiskCache

posix = pytest.mark.skipif(os.name != "posix", reason="about POSIX permissions")


def entry(root):
    (name,) = [n for n in os.listdir(root / FOLDER) if not n.startswith("tmp-")]
    return root / FOLDER / name


def test_round_trip(tmp_path):
    c = DiskCache(tmp_path / "deep" / "cache")
    assert c.lookup("k") is None
    for payload in (b"", b"code" * 1000):
        c.store("k", payload)
        assert c.lookup("k") == payload
        assert DiskCache(tmp_path / "deep" / "cache").lookup(b"k") == payload
    assert c.lookup("other") is None
    assert c.reason is None


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def damage_flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def damage_empty(path):
    path.write_bytes(b"")


def damage_longer(path):
    path.write_bytes(path.read_bytes() + b"x")


def damage_magic(path):
    path.write_bytes(b"X" + path.read_bytes()[1:])


@pytest.mark.parametrize(
    "damage", [damage_truncate, damage_flip, damage_empty, damage_longer, damage_magic]
)
def test_damage_is_absence_and_is_repaired(tmp_path, damage):
    c = DiskCache(tmp_path)
    c.store("k", b"payload")
    damage(entry(tmp_path))
    assert c.lookup("k") is None
    c.store("k", b"payload")
    assert c.lookup("k") == b"payload"


def test_entry_of_another_key_is_not_believed(tmp_path):
    c = DiskCache(tmp_path)
    c.store("a", b"payload")
    a = entry(tmp_path)
    c.store("b", b"other")
    (b,) = [tmp_path / FOLDER / n for n in os.listdir(tmp_path / FOLDER) if n != a.name]
    b.write_bytes(a.read_bytes())
    assert c.lookup("b") is None


@posix
def test_folder_is_private(tmp_path):
    DiskCache(tmp_path / "c").store("k", b"x")
    assert stat.S_IMODE((tmp_path / "c" / FOLDER).stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(tmp_path / "c").stat().st_mode) == 0o600


@posix
def test_open_folder_turns_the_cache_off(tmp_path):
    DiskCache(tmp_path).store("k", b"x")
    os.chmod(tmp_path / FOLDER, 0o755)
    c = DiskCache(tmp_path)
    assert "open to others" in c.reason
    assert c.lookup("k") is None
    c.store("k", b"y")
    os.chmod(tmp_path / FOLDER, 0o700)
    assert DiskCache(tmp_path).lookup("k") == b"x"


@posix
def test_links_are_not_followed(tmp_path):
    real = DiskCache(tmp_path / "real")
    real.store("k", b"x")
    (tmp_path / "fake").mkdir()
    os.symlink(tmp_path / "real" / FOLDER, tmp_path / "fake" / FOLDER)
    assert DiskCache(tmp_path / "fake").reason is not None
    path = entry(tmp_path / "real")
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    assert real.lookup("k") is None
    real.store("k", b"y")  # takes the link's place, leaves what it pointed to
    assert real.lookup("k") == b"y"
    assert not path.is_symlink()


@posix
def test_strange_entries_are_ignored(tmp_path):
    c = DiskCache(tmp_path)
    c.store("k", b"x")
    path = entry(tmp_path)
    os.chmod(path, 0o666)
    assert c.lookup("k") is None
    path.unlink()
    os.mkfifo(path)
    assert c.lookup("k") is None  # and does not wait for a writer
    path.unlink()
    path.mkdir()
    assert c.lookup("k") is None
    c.store("k", b"x")
    assert c.lookup("k") is None


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="needs to give files away")
def test_what_another_user_owns_is_not_believed(tmp_path):
    c = DiskCache(tmp_path)
    c.store("k", b"x")
    os.chown(entry(tmp_path), 12345, -1)
    assert c.lookup("k") is None
    os.chown(tmp_path / FOLDER, 12345, -1)
    assert "not the user's own" in DiskCache(tmp_path).reason


def test_no_place_for_a_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    c = DiskCache(tmp_path / "file" / "below")
    c.store("k", b"x")
    assert c.lookup("k") is None
    assert c.reason is not None


def test_size_is_bounded_and_the_oldest_go(tmp_path):
    c = DiskCache(tmp_path, limit=10_000)
    c.store("old", b"x" * 1000)
    path = entry(tmp_path)
    past = time.time() - 10 * 86400
    os.utime(path, (past, past))
    assert c.lookup("old") is not None  # a use makes it young
    assert path.stat().st_mtime > past + 86400
    for k in range(40):
        c.store(f"k{k}", b"y" * 1000)
        total = sum(f.stat().st_size for f in (tmp_path / FOLDER).iterdir())
        assert total <= 10_000 + 2000
        newest = tmp_path / FOLDER / digest(f"k{k}").hexdigest()
        os.utime(newest, (past + k, past + k))
    assert c.lookup("k39") is not None
    assert c.lookup("k0") is None


def test_litter_of_killed_writers_is_swept(tmp_path):
    c = DiskCache(tmp_path)
    litter = tmp_path / FOLDER / "tmp-1-dead"
    litter.write_bytes(b"half")
    past = time.time() - 86400
    os.utime(litter, (past, past))
    fresh = tmp_path / FOLDER / "tmp-2-alive"
    fresh.write_bytes(b"half")
    c.store("k", b"x")
    assert not litter.exists()
    assert fresh.exists()
    assert c.lookup("k") == b"x"


def test_full_disk_is_no_error(tmp_path, monkeypatch):
    c = DiskCache(tmp_path)

    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    c.store("k", b"x")
    monkeypatch.undo()
    assert c.lookup("k") is None
    assert os.listdir(tmp_path / FOLDER) == []


def write_many(root, seed):
    c = DiskCache(root)
    for n in range(200):
        payload = bytes([seed]) * (1 + n % 7 * 5000)
        c.store(f"k{n % 5}", payload)
        found = c.lookup(f"k{(n + seed) % 5}")
        assert found is None or len(set(found)) == 1


def test_processes_and_threads_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=write_many, args=(tmp_path, s)) for s in (1, 2)]
    for p in others:
        p.start()
    threads = [threading.Thread(target=write_many, args=(tmp_path, s)) for s in (3, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for p in others:
        p.join(60)
        assert p.exitcode == 0
    c = DiskCache(tmp_path)
    assert all(c.lookup(f"k{n}") is not None for n in range(5))


KILLED = """
import os, sys
from covector._base.digest import digest
from covector.backends.cpu import cache
c = cache.DiskCache(sys.argv[1])
real = os.write
def half(fd, data):
    real(fd, bytes(data)[: len(data) // 2])
    os._exit(9)
os.write = half
c.store("k", b"new" * 1000)
"""


def test_killed_while_writing_leaves_the_old_entry(tmp_path):
    c = DiskCache(tmp_path)
    c.store("k", b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == 9
    assert c.lookup("k") == b"old"


def test_options_choose_the_cache(tmp_path):
    with config.scoped(compilation_cache_dir=str(tmp_path / "here")):
        cache.store("k", b"x")
        assert cache.lookup("k") == b"x"
        assert (tmp_path / "here" / FOLDER).is_dir()
        with config.scoped(enable_compilation_cache=False):
            assert cache.current() is None
            assert cache.lookup("k") is None
            cache.store("k", b"y")
        assert cache.lookup("k") == b"x"
    with config.scoped(compilation_cache_dir=str(tmp_path / "there")):
        assert cache.lookup("k") is None
