from flamectl_operator.runtime.lru_cache import LRUCache


def test_least_recently_used_entry_is_dropped() -> None:
    values: LRUCache[int] = LRUCache(3)
    for number, key in enumerate("abc"):
        values.put(key, number)
    assert values.find("a") == 0
    assert values.get("d", lambda: 3) == 3

    assert [values.find(key) for key in "abcd"] == [0, None, 2, 3]
    assert len(values) == 3
