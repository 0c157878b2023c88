from cometmq.format.queue_entry import pack
from cometmq.message import Buffer
from cometmq.store.queue.entries_ahead import AHEAD, QUEUES_MAX, EntriesAhead


class Files:
    """Entries that can be read, those of which the files have ``count``; and what was read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.waits_from = count + 100
        self.reads: list[tuple[int, int]] = []

    def entries(self, begin: int, end: int) -> bytes:
        return b"".join(pack(100 * n, 100, n) for n in range(begin, end))

    def read(self, begin: int, end: int) -> bytes | None:
        self.reads.append((begin, end))
        return None if end > self.waits_from else self.entries(begin, end)

    def ask(self, ahead: EntriesAhead, begin: int, end: int, number: int = 3) -> bytes | None:
        found: Buffer | None = ahead.cached(number, begin, end)
        if found is None:
            found = ahead.read(number, begin, end, self.count, 0, self.read)
        assert found is None or found == self.entries(begin, end)
        return None if found is None else bytes(found)


def test_entries_are_read_with_those_behind_them_which_are_then_known() -> None:
    ahead, files = EntriesAhead(), Files(1_000)
    assert files.ask(ahead, 10, 42) and files.ask(ahead, 42, 74) and files.ask(ahead, 10, 12)
    assert files.reads == [(10, 10 + AHEAD)]
    assert files.ask(ahead, 200, 10 + AHEAD) and len(files.reads) == 1
    assert files.ask(ahead, 200, 11 + AHEAD) and files.ask(ahead, 9, 12)
    assert files.reads[1:] == [(200, 200 + AHEAD), (9, 9 + AHEAD)]


def test_what_is_not_in_files_yet_is_read_each_time() -> None:
    ahead, files = EntriesAhead(), Files(50)
    assert files.ask(ahead, 40, 45) and files.ask(ahead, 45, 50) and files.ask(ahead, 50, 60)
    assert files.ask(ahead, 45, 55) and files.ask(ahead, 50, 60) and files.ask(ahead, 40, 50)
    assert files.reads == [(40, 50), (50, 60), (45, 55), (50, 60)]


def test_where_those_behind_have_to_wait_only_what_is_asked_for_is_read() -> None:
    ahead, files = EntriesAhead(), Files(1_000)
    files.waits_from = 60
    assert files.ask(ahead, 10, 42) and files.reads == [(10, 10 + AHEAD), (10, 42)]
    assert files.ask(ahead, 50, 82) is None


def test_many_entries_are_read_as_they_are_asked_for() -> None:
    ahead, files = EntriesAhead(), Files(1_000)
    assert files.ask(ahead, 0, AHEAD) and files.ask(ahead, 0, AHEAD + 1)
    assert files.reads == [(0, AHEAD), (0, AHEAD + 1)]


def test_what_is_forgotten_is_read_again() -> None:
    ahead, files = EntriesAhead(), Files(1_000)
    assert files.ask(ahead, 10, 12)
    ahead.discard(3)
    ahead.discard(4)
    assert files.ask(ahead, 10, 12) and len(files.reads) == 2


def test_entries_of_the_latest_queues_are_known() -> None:
    ahead, files = EntriesAhead(), Files(1_000)
    for number in range(QUEUES_MAX):
        files.ask(ahead, 10, 12, number)
    files.ask(ahead, 500, 502, 0)
    files.ask(ahead, 10, 12, QUEUES_MAX)
    read = len(files.reads)
    for number, begin in ((0, 500), (2, 10), (QUEUES_MAX, 10)):
        assert files.ask(ahead, begin, begin + 2, number)
    assert len(files.reads) == read
    assert files.ask(ahead, 10, 12, 1) and len(files.reads) == read + 1
