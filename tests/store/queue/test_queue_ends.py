from pathlib import Path

from tests.store.conftest import SMALL, new_message

from cometmq.store.queue.queue_ends import QueueEnds
from cometmq.store.reading import run
from cometmq.store.store import MessageStore


def test_the_ends_of_a_queue_are_what_can_be_read_of_it(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, SMALL) as store:
        store.append([new_message("T", 3), new_message("T", 3)])
        assert store.ends_of("T", 3) == QueueEnds(low=0, high=2)
        assert store.ends_of("T", 0) == store.ends_of("U", 3) == QueueEnds(0, 0)


def test_the_ends_of_all_queues_come_by_their_numbers(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, SMALL) as store:
        ends = store.queue_ends
        store.append([new_message("T", 0), new_message("T", 3), new_message("T", 3), new_message("U", 0)])
        numbers = ends.numbers_of("T")
        copied = ends.copy()
        assert {queue_id: int(copied[number]) for queue_id, number in numbers.items()} == {0: 1, 3: 2}
        assert ends.key_of(numbers[3]) == ("T", 3)
        store.append([new_message("T", 3)])
        assert int(copied[numbers[3]]) == 2, "a copy does not change"
        assert ends.numbers_of("V") == {}


def test_a_deleted_queue_has_no_end_and_its_number_names_no_other(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, SMALL) as store:
        ends = store.queue_ends
        store.append([new_message("T", 0)])
        number = ends.numbers_of("T")[0]
        store.delete_topic("T")
        store.append([new_message("T", 0)])
        assert int(ends.copy()[number]) == -1 and ends.key_of(number) is None
        assert len(run(ends.entries(("U", 0), 0, 1))) == 0
        assert ends.numbers_of("T")[0] != number


def test_the_entries_before_an_end_are_read_from_the_files_and_from_memory(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, SMALL) as store:
        placed = [store.append([new_message("T", 0, bytes(n))])[0] for n in range(20)]
        entries = run(store.queue_ends.entries(("T", 0), 5, 20))
        assert entries["size"].tolist() == [one.size for one in placed[5:]]
        assert entries["physical_offset"].tolist() == [one.physical_offset for one in placed[5:]]
        assert len(run(store.queue_ends.entries(("T", 0), 18, 30))) == 2
