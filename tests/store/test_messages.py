"""The store as a library: whole messages in and out."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import DamagedRecord, FormatError, MessageIllegal
from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.store import Message, MessageStore, StoredMessage
from cometmq.testing.memory_disk import MemoryDisk

PATIENCE_S = 60


def bodies(messages: list[StoredMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def filled(open_store: OpenStore, count: int = 100) -> MessageStore:
    """A store whose one queue has a message of each number, tagged by its last digit, over many files."""
    store = open_store()
    store.append_messages(Message("Orders", b"%d" % n, tags=f"t{n % 10}") for n in range(count))
    return store


def test_what_is_appended_is_what_is_read(open_store: OpenStore, clock: ManualClock) -> None:
    store = open_store()
    message = Message("Orders", b"body", tags="paid", keys=("a", "b"), properties={"color": "red"}, flag=7)
    receipt = store.append_message(message, queue_id=3)
    (stored,) = store.messages("Orders", 3)
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (b"body", "paid", ("a", "b"), 7)
    assert stored.properties["color"] == "red"
    assert stored.born_time == stored.store_time == receipt.store_time == clock.now_ms()
    assert (stored.topic, stored.queue_id, stored.queue_offset) == receipt[1:4] == ("Orders", 3, 0)
    assert (stored.message_id, stored.offset_id) == (receipt.message_id, receipt.offset_id)


def test_a_queue_is_read_over_all_its_files_and_between_any_two_offsets(open_store: OpenStore) -> None:
    store = filled(open_store)
    assert bodies(list(store.messages("Orders"))) == list(range(100))
    assert bodies(list(store.messages("Orders", begin=33, end=66))) == list(range(33, 66))
    assert list(store.messages("Orders", begin=100)) == list(store.messages("Orders", begin=1_000)) == []
    assert list(store.messages("Orders", begin=5, end=5)) == list(store.messages("Others")) == []


def test_tags_choose_messages_and_not_those_of_equal_hash(open_store: OpenStore) -> None:
    store = filled(open_store)
    assert bodies(list(store.messages("Orders", tags="t3 || t4", end=20))) == [3, 4, 13, 14]
    store.append_messages(Message("Twins", b"1", tags=tag) for tag in ("Aa", "BB"))
    assert [message.tags for message in store.messages("Twins", tags="BB")] == ["BB"]
    with pytest.raises(FormatError, match="names no tag"):
        store.messages("Orders", tags="||")


def test_a_message_is_found_by_either_id_and_by_no_other(open_store: OpenStore) -> None:
    store = filled(open_store, 10)
    receipt = store.append_message(Message("Others", b"99"))
    for message_id in (receipt.message_id, receipt.offset_id, receipt.offset_id.lower()):
        found = store.message_by_id(message_id)
        assert found is not None and found.body == b"99"
        assert store.message_by_id(message_id, "Others") == found
        assert store.message_by_id(message_id, "Orders") is None
    for other in ("", "?", "0" * 32, receipt.offset_id[:-1] + "F", receipt.message_id[:-4] + "FFFF"):
        assert store.message_by_id(other) is None


def test_messages_are_found_by_key_the_newest_of_them_if_there_are_many(open_store: OpenStore) -> None:
    store = open_store()
    store.append_messages(Message("Orders", b"%d" % n, keys=("k", f"k{n}")) for n in range(20))
    assert bodies(store.messages_by_key("Orders", "k")) == list(range(20))
    assert bodies(store.messages_by_key("Orders", "k", max_count=3)) == [17, 18, 19]
    assert bodies(store.messages_by_key("Orders", "k7")) == [7]
    unique_id = next(store.messages("Orders")).message_id
    assert store.messages_by_key("Orders", unique_id) == []  # an id is no key


def test_of_messages_of_which_one_is_illegal_none_is_stored(open_store: OpenStore) -> None:
    store = open_store()
    with pytest.raises(MessageIllegal, match="body is empty"):
        store.append_messages([Message("Orders", b"x"), Message("Orders", b"")])
    with pytest.raises(MessageIllegal, match="at most 4194304"):
        store.append_message(Message("Orders", bytes(4 * 1024 * 1024 + 1)))
    assert (store.append_messages([]), store.written_offset) == ([], 0)


def test_a_delay_is_refused_for_nothing_would_end_it(open_store: OpenStore) -> None:
    with open_store() as store, pytest.raises(MessageIllegal, match="only a broker delays messages"):
        store.append_message(Message("Orders", b"x", delay_level=3))


def test_messages_of_brokers_are_read_too(open_store: OpenStore) -> None:
    store = open_store()
    store.append([new_message(body=b"1", keys="k")])  # no unique key: its id says where it lies
    (message,) = store.messages("Orders")
    assert message.message_id == message.offset_id
    assert store.message_by_id(message.message_id) == message
    assert store.messages_by_key("Orders", "k") == [message]


def test_a_body_that_is_not_what_was_appended_is_never_given(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = filled(open_store, 3)
    second = next(store.messages("Orders", begin=1))
    disk.open(layout.commitlog_path(ROOT, 0), writable=True).write(second.physical_offset + 88, b"?")
    reading = store.messages("Orders")
    assert next(reading).body == b"0"
    with pytest.raises(DamagedRecord, match=f"record at {second.physical_offset}: BODYCRC"):
        next(reading)
    assert bodies(list(store.messages("Orders", begin=2))) == [2]


def test_what_expired_is_passed_over(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, SMALL) as store:
        store.append_messages(Message("Orders", b"%d" % n) for n in range(100))
    (tmp_path / "commitlog" / "0".zfill(20)).unlink()
    with MessageStore.open(tmp_path, SMALL) as store:
        left = bodies(list(store.messages("Orders")))
    assert left == list(range(left[0], 100)) and left[0] > 0


@pytest.mark.parametrize(("module", "words"), [("numpy", "pip install 'cometmq[broker]'"), ("numba", "")])
def test_without_numba_it_works_and_without_numpy_it_says_what_to_install(
    module: str, words: str, tmp_path: Path
) -> None:
    program = (
        f"import sys; sys.modules['{module}'] = None\n"
        "from cometmq.store import Message, MessageStore\n"
        "with MessageStore.open(sys.argv[1]) as store:\n"
        "    store.append_message(Message('Orders', b'x', keys=('k',)))\n"
        "    assert store.messages_by_key('Orders', 'k')"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode != 0) == bool(words)
    assert words in ran.stderr
