"""Small containers and sequence helpers."""

import gc
import threading

import pytest

from covector._base.containers import (
    LRU,
    WeakIdCache,
    merge,
    partition,
    safe_map,
    safe_zip,
    split_list,
    unique,
    unzip2,
    unzip3,
)


def test_zips():
    assert safe_zip([1, 2], (3, 4), iter("ab")) == [(1, 3, "a"), (2, 4, "b")]
    assert safe_zip() == []
    assert safe_map(lambda a, b: a + b, [1, 2], [3, 4]) == [4, 6]
    assert unzip2([]) == ((), ())
    assert unzip2(iter([(1, "a"), (2, "b")])) == ((1, 2), ("a", "b"))
    assert unzip3([(1, "a", None)]) == ((1,), ("a",), (None,))
    with pytest.raises(ValueError, match="one length; got lengths 2, 3, 2"):
        safe_zip([1, 2], [1, 2, 3], iter([1, 2]))
    with pytest.raises(ValueError, match=r"mapping max needs sequences of one length; got .* 1, 2"):
        safe_map(max, [1], [1, 2])


def test_splitting():
    assert split_list([1, 2, 3, 4], [1, 0, 2]) == [[1], [], [2, 3], [4]]
    for sizes in ([3, 2], [-1]):
        with pytest.raises(ValueError, match="4 items cannot give"):
            split_list([1, 2, 3, 4], sizes)
    mask = [True, False, True]
    unchosen, chosen = partition(mask, "abc")
    assert (unchosen, chosen) == (["b"], ["a", "c"])
    assert merge(mask, unchosen, chosen) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="shorter"):
        merge([True], [], [1, 2])
    assert unique("abracadabra") == ["a", "b", "r", "c", "d"]


def test_lru_forgets_the_oldest():
    cache = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert list(cache) == ["a", "c"]
    assert cache.get("b", "gone") == "gone"
    assert (cache.hits, cache.misses, len(cache)) == (1, 1, 2)
    assert cache.get_or_make("d", lambda: 4) == 4
    assert cache.get_or_make("d", lambda: pytest.fail("made twice")) == 4
    assert "a" not in cache
    cache.discard("d")
    cache.discard("never there")
    assert list(cache) == ["c"]
    cache.clear()
    assert (len(cache), cache.hits) == (0, 0)
    with pytest.raises(ValueError, match="got maxsize 0"):
        LRU(0)


def test_lru_with_none_as_value():
    cache = LRU(4)
    cache.put("a", None)
    assert cache.get_or_make("a", lambda: pytest.fail("made again")) is None


def test_lru_with_threads():
    cache = LRU(50)

    def work():
        for i in range(500):
            key = i % 80
            assert cache.get_or_make(key, lambda key=key: key * 2) == key * 2

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 50


class Thing:
    __hash__ = None

    def __eq__(self, other):
        return True


def test_weak_id_cache_goes_by_identity_and_forgets():
    cache = WeakIdCache()
    a, b = Thing(), Thing()
    assert cache.put(a, 1) == 1
    assert cache.get_or_make(b, lambda: 2) == 2
    assert (cache.get(a), cache.get(b), cache.get(Thing())) == (1, 2, None)
    assert a in cache
    cache.put(a, 3)
    assert cache.get(a) == 3
    del a
    gc.collect()
    assert len(cache) == 1
    with pytest.raises(TypeError):
        cache.put(3, 4)
    cache.clear()
    assert b not in cache
