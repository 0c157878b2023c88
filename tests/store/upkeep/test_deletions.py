"""Topics and queues are deleted step by step: noted in any thread, taken out by the owner's, in turns."""

import itertools
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.store import MessageStore
from cometmq.store.queue.queues import QueueKey
from cometmq.store.reading import PAUSE, Reading, Run, ThreadStep, run
from cometmq.store.upkeep.deletions import MOVE_WEIGHT, TURN_MAX
from cometmq.testing.memory_disk import MemoryDisk

QUEUES = layout.consume_queues_dir(ROOT)


def steps(deletion: Reading[None]) -> Iterator[ThreadStep]:
    """Yield the steps of a deletion; each is done in a thread when the next one is asked for."""
    carried_out, fetched = Run(deletion), None
    while not carried_out.go_on(fetched):
        assert isinstance(carried_out.step, ThreadStep)
        yield carried_out.step
        fetched = carried_out.step.fetch()


def expire(open_store: OpenStore) -> MessageStore:
    """Open a store of whose messages all but the last, in another topic, have expired."""
    store = open_store(replace(SMALL, file_reserved_time=0))
    store.append([new_message("Last", body=bytes(900)) for _ in range(20)])
    store.close()
    store = open_store(replace(SMALL, file_reserved_time=0))
    store.retention.ask()
    assert store.retention.run()
    return store


def is_last(topic: str, _: int) -> bool:
    return topic == "Last"


def none_is_deleted(queues: list[QueueKey]) -> None:
    assert queues == []


def test_a_topic_stays_until_its_deletion_is_on_the_disk(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message(), new_message("Other")])
    store._queues.write_back()
    topics = [store.topics() for _ in steps(store.deletions.topics(["Orders"]))]
    assert topics == [["Orders", "Other"]]
    assert store.topics() == ["Other"]
    assert disk.names(QUEUES) == [".deleted", "Other"]
    assert store.deletions.has_files
    store.deletions.remove_files()
    assert (store.deletions.has_files, disk.names(layout.deleted_dir(QUEUES))) == (False, [])


def test_of_a_topic_with_many_queues_some_go_in_each_turn(open_store: OpenStore) -> None:
    store = open_store()
    count = 3 * TURN_MAX + 7
    store.append([new_message(queue_id=queue_id) for queue_id in range(count)])
    left = [count, *(len(store.queues()) for _ in steps(store.deletions.topics(["Orders"]))), 0]
    assert left == sorted(left, reverse=True)
    assert max(before - after for before, after in itertools.pairwise(left)) == TURN_MAX
    assert store.append([new_message(queue_id=TURN_MAX)])[0].queue_offset == 0


def test_of_many_topics_some_go_in_each_turn_and_all_are_noted_at_once(open_store: OpenStore) -> None:
    store = open_store()
    topics = [f"T{n}" for n in range(TURN_MAX)]
    store.append([new_message(topic) for topic in topics])
    taken = list(steps(store.deletions.topics(topics)))
    assert [step for step in taken if step is not PAUSE] == taken[:1], "one note"
    assert len(taken) > MOVE_WEIGHT
    assert store.topics() == []


def test_a_deletion_that_the_disk_refuses_leaves_all_as_it_was(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store()
    store.append([new_message(), new_message("Other")])
    disk.space_bytes = 0
    with pytest.raises(StoreNotWritable, match="disk full"):
        run(store.deletions.topics(["Orders", "Other"]))
    assert store.topics() == ["Orders", "Other"]
    assert [store.deleted_before(topic) for topic in store.topics()] == [0, 0]
    assert store.append([new_message()])[0].queue_offset == 1


def test_queues_that_nobody_uses_go_once_their_messages_are_gone(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    with open_store() as store:
        store.append([new_message("Unused", queue_id=queue_id) for queue_id in range(2)])
        store.append([new_message("Used", queue_id=queue_id) for queue_id in range(2)])
        run(store.deletions.unused(is_last, none_is_deleted))
    store = expire(open_store)
    deleted: list[QueueKey] = []

    def is_used(topic: str, queue_id: int) -> bool:
        return is_last(topic, queue_id) or (topic, queue_id) == ("Used", 0)

    run(store.deletions.unused(is_used, deleted.extend))
    assert deleted == [("Unused", 0), ("Unused", 1), ("Used", 1)]
    assert store.queues() == [("Last", 0), ("Used", 0)]
    assert (disk.names(QUEUES), disk.names(QUEUES / "Used")) == ([".deleted", "Last", "Used"], ["0"])
    assert store.append([new_message("Used", queue_id=1)])[0].queue_offset == 0


def test_a_queue_that_is_used_or_gets_a_message_while_the_others_are_noted_stays(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    topics = ["Gone", "Message", "Used"]
    with open_store() as store:
        store.append([new_message(topic) for topic in topics])
    store = expire(open_store)
    deleted: list[QueueKey] = []
    used = {"Last"}
    for step in steps(store.deletions.unused(lambda topic, _: topic in used, deleted.extend)):
        if step is not PAUSE:
            used.add("Used")
            assert store.append([new_message("Message")])[0].queue_offset == 1
    assert (deleted, store.topics()) == ([("Gone", 0)], ["Last", "Message", "Used"])
    again = open_store(files=disk.after_kill())
    ends = {topic: again.max_queue_offset(topic, 0) for topic in topics}
    assert ends == {"Gone": 0, "Message": 2, "Used": 1}


def test_queues_that_are_looked_at_are_some_in_each_turn(open_store: OpenStore) -> None:
    store = open_store()
    store.append([new_message(queue_id=queue_id) for queue_id in range(2 * TURN_MAX + 1)])
    taken = list(steps(store.deletions.unused(lambda *_: True, none_is_deleted)))
    assert taken == [PAUSE] * 3
