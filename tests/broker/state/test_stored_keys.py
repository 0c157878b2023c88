from cometmq.broker.state.idempotence import StoredKeys, StoredPlace, digest
from cometmq.store.append import Appended

WINDOW_MS = 1_000


def place(store_time: int, number: int = 0) -> StoredPlace:
    return StoredPlace(number % 4, Appended(number * 100, number, 100, store_time))


def test_a_key_is_known_for_the_window() -> None:
    known = StoredKeys(WINDOW_MS, 100)
    known.add(b"a", place(5_000, 7))
    assert known.find(b"a", 5_999) == place(5_000, 7)
    assert known.find(b"a", 6_000) is None
    assert known.find(b"b", 5_000) is None


def test_a_key_is_known_for_the_window_whatever_comes_after_it_and_then_no_more_held() -> None:
    known = StoredKeys(WINDOW_MS, 1_000_000)
    for now_ms in range(0, 20 * WINDOW_MS, 100):
        known.add(b"%d" % now_ms, place(now_ms))
        inside = range(max(0, now_ms - WINDOW_MS + 100), now_ms, 100)
        assert all(known.find(b"%d" % then_ms, now_ms) for then_ms in inside)
        assert len(known) <= 2 * WINDOW_MS / 100


def test_of_too_many_keys_the_older_half_is_forgotten() -> None:
    known = StoredKeys(WINDOW_MS, 10)
    for number in range(1_000):
        known.add(b"%d" % number, place(0, number))
        assert len(known) <= 10
        assert all(known.find(b"%d" % last, 0) for last in range(max(0, number - 4), number + 1))


def test_keys_are_told_apart_by_topic_and_its_life() -> None:
    keys = {digest("T", 0, "k"), digest("T", 9, "k"), digest("Tk", 0, ""), digest("T", 0, "\ud800" * 9_000)}
    assert len(keys) == 4 and {len(key) for key in keys} == {16}
