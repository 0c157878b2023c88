"""ConsumeQueues against the log."""

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message
from tests.store.verify.conftest import ABORT, FIRST_LOG, FIRST_QUEUE, checked, damages, flip, overwrite

from cometmq.format import layout, properties, queue_entry
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.queue_entry import FILLER
from cometmq.format.record import QUEUE_ID_AT, QUEUE_OFFSET_AT
from cometmq.io.clock import ManualClock
from cometmq.store.files.finding import Severity
from cometmq.store.verify import State
from cometmq.testing.memory_disk import MemoryDisk

LAST_QUEUE_FILE_START = 400
"""Each queue has 20 entries, as many as its first file holds."""


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [(0, b"\0\1", "is (offset 2"), (8, b"\1", "size 16777"), (12, b"\7", "tags code 5")],
)
def test_an_entry_that_differs_from_its_record_is_told(
    sound: MemoryDisk, at: int, data: bytes, what: str
) -> None:
    overwrite(sound, FIRST_QUEUE, 5 * 20 + at, data)
    finding = damages(checked(sound))[0]
    assert (finding.path, finding.position, finding.size) == (FIRST_QUEUE, 100, 20)
    assert "entry of queue offset 5" in finding.what
    assert what in finding.what
    assert "rebuild" in finding.remedy


OWN_LEVELS = replace(SMALL, message_delay_level="3s 40s 2d")
DELAYED_QUEUE = layout.consume_queue_path(ROOT, SCHEDULE_TOPIC, 1, 0)


@pytest.fixture
def delayed(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> MemoryDisk:
    """A closed store of 9 delayed messages, written with levels of its own."""
    store = open_store(OWN_LEVELS)
    for n in range(9):
        named = properties.encode({"DELAY": str(1 + n % 3), "TAGS": "t"})
        store.append([new_message(SCHEDULE_TOPIC, n % 3)._replace(properties=named, tags="t")])
        clock.advance(700)
    store.close()
    return disk


def test_when_a_message_is_due_is_not_judged_by_levels_that_are_others_now(delayed: MemoryDisk) -> None:
    """With the defaults of ``checked`` all nine were wrong."""
    assert checked(delayed).state is State.SOUND


@pytest.mark.parametrize("bit", range(63))
def test_a_bit_that_flips_in_when_a_message_is_due_is_told(delayed: MemoryDisk, bit: int) -> None:
    flip(delayed, DELAYED_QUEUE, 20 + 12 + 7 - bit // 8, bit % 8)
    (finding,) = damages(checked(delayed))
    assert (finding.path, finding.position) == (DELAYED_QUEUE, 20)
    assert finding.what.endswith("or due another number of whole seconds after it was stored")


def test_the_tags_of_a_delayed_message_are_no_time_when_it_is_due(delayed: MemoryDisk) -> None:
    overwrite(delayed, DELAYED_QUEUE, 12, (116).to_bytes(8, "big"))
    assert [finding.position for finding in damages(checked(delayed))] == [0]


def test_a_hole_of_entries_is_told_as_one(sound: MemoryDisk) -> None:
    overwrite(sound, FIRST_QUEUE, 40, bytes(60))
    (finding,) = damages(checked(sound))
    assert (finding.position, finding.size) == (40, 60)
    assert "no entry of queue offset 2 and 2 behind it" in finding.what


def test_a_queue_that_is_gone_is_told(sound: MemoryDisk) -> None:
    sound.remove(FIRST_QUEUE)
    findings = damages(checked(sound))
    assert "no entry of queue offset 0 and 19 behind it" in findings[0].what
    assert findings[0].path == FIRST_QUEUE.parent


def test_entries_that_a_killed_broker_had_not_written_are_no_damage(sound: MemoryDisk) -> None:
    overwrite(sound, FIRST_QUEUE, 15 * 20, bytes(100))
    assert checked(sound).state is State.DAMAGED
    sound.put(ABORT, b"1")
    sound.remove(layout.checkpoint_path(ROOT))  # so that the next start reads the whole log
    verified = checked(sound)
    assert verified.state is State.NEEDS_RECOVERY, verified.findings


def test_a_hole_is_damage_even_after_a_kill(sound: MemoryDisk) -> None:
    overwrite(sound, FIRST_QUEUE, 40, bytes(20))
    sound.put(ABORT, b"1")
    assert checked(sound).state is State.DAMAGED


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (queue_entry.pack(300, 250, 0), "where no record of this queue offset is"),
        (queue_entry.pack(10**9, 250, 0), "behind the log's end"),
        (queue_entry.pack(-5, 250, 0), "where no record"),
    ],
)
def test_an_entry_without_a_record_is_told(sound: MemoryDisk, entry: bytes, what: str) -> None:
    path = layout.consume_queue_path(ROOT, "Orders", 0, LAST_QUEUE_FILE_START)
    sound.put(path, entry + bytes(380))
    (finding,) = damages(checked(sound))
    assert (finding.path, finding.position) == (path, 0)
    assert what in finding.what


def test_entries_of_expired_messages_and_fillers_are_right(sound: MemoryDisk) -> None:
    sound.remove(FIRST_LOG)
    remaining = checked(sound)
    assert damages(remaining) == []
    overwrite(sound, FIRST_QUEUE, 0, queue_entry.pack(*FILLER))
    assert damages(checked(sound)) == []


def test_a_queue_offset_out_of_order_is_told_at_its_record(sound: MemoryDisk) -> None:
    overwrite(sound, FIRST_LOG, QUEUE_OFFSET_AT + 7, b"\x09")
    finding = damages(checked(sound))[0]
    assert (finding.path, finding.position) == (FIRST_LOG, 0)
    assert "record of Orders-0 has queue offset 9, expected 0" in finding.what


def test_a_queue_id_that_cannot_be_is_told_at_its_record(sound: MemoryDisk) -> None:
    overwrite(sound, FIRST_LOG, QUEUE_ID_AT, b"\x80")
    assert "must not be negative" in str(damages(checked(sound)))


def test_the_records_of_a_deleted_topic_need_no_queue(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message("Deleted"), new_message("Kept")])
    store.delete_topic("Deleted")
    store.close()
    assert checked(disk).state is State.SOUND
    ledger = layout.config_path(ROOT, "queues")  # a Java broker has none
    for path in (ledger, layout.backup_path(ledger)):
        disk.remove(path)
    assert checked(disk).state is State.DAMAGED
    disk.save(layout.config_path(ROOT, "topics"), b'{"topicConfigTable":{"Kept":{}}}')
    assert checked(disk).state is State.SOUND


def test_a_topic_made_again_is_held_against_its_new_messages(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    for _ in range(5):
        store.append([new_message()])
    store.delete_topic("Orders")
    for _ in range(3):
        store.append([new_message()])
    store.close()
    assert checked(disk).state is State.SOUND


def test_alien_files_are_told(sound: MemoryDisk) -> None:
    sound.put(layout.consume_queues_dir(ROOT) / "notes", b"x")
    sound.put(layout.topic_dir(ROOT, "Orders") / "x1", b"x")
    sound.put(FIRST_QUEUE.parent / "readme", b"x")
    sound.put(FIRST_QUEUE.parent / "00000000000000000400.tmp", b"")
    findings = checked(sound).findings
    assert [finding.severity for finding in findings] == [Severity.RECOVERY, *[Severity.DAMAGE] * 3] or len(
        damages(checked(sound))
    ) == 3
