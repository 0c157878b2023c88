from cometmq.format.queue_entry import SIZE, pack
from cometmq.store.entries_ahead import QUEUES_MAX, EntriesAhead

ENTRIES = b"".join(pack(100 * n, 100, n) for n in range(10, 20))


def test_entries_are_given_where_all_of_them_are_known() -> None:
    ahead = EntriesAhead()
    ahead.keep(3, 10, ENTRIES)
    assert ahead.get(3, 10, 20) == ENTRIES
    assert ahead.get(3, 12, 15) == ENTRIES[2 * SIZE : 5 * SIZE]
    assert ahead.get(3, 9, 12) is ahead.get(3, 18, 21) is ahead.get(3, 25, 30) is ahead.get(3, 14, 12) is None
    assert ahead.get(4, 10, 20) is None


def test_later_entries_take_the_place_of_those_before_and_what_is_forgotten_is_gone() -> None:
    ahead = EntriesAhead()
    ahead.keep(3, 10, ENTRIES)
    ahead.keep(3, 20, ENTRIES)
    assert ahead.get(3, 10, 12) is None and ahead.get(3, 20, 30) == ENTRIES
    ahead.forget(3)
    ahead.forget(4)
    assert ahead.get(3, 20, 30) is None


def test_entries_of_the_latest_queues_are_kept() -> None:
    ahead = EntriesAhead()
    for number in range(QUEUES_MAX):
        ahead.keep(number, 10, ENTRIES)
    ahead.keep(0, 10, ENTRIES)
    ahead.keep(QUEUES_MAX, 10, ENTRIES)
    assert ahead.get(1, 10, 12) is None
    assert ahead.get(0, 10, 12) and ahead.get(2, 10, 12) and ahead.get(QUEUES_MAX, 10, 12)
