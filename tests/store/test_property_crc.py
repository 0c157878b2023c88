"""A store whose records end in the property CRC: what is written, what is asked of it, and by whom."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import MessageIllegal, SettingsError
from cometmq.format import layout, properties
from cometmq.format.checksum import Crc
from cometmq.format.properties import MAX_LENGTH
from cometmq.format.property_crc import SIZE, is_sealed
from cometmq.format.record import decode
from cometmq.store import MessageStore, StoredMessage, StoreSettings
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect.summary import summarize
from cometmq.store.offline.find import FindQuery, find
from cometmq.store.offline.salvage import salvage
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk

WRITTEN = replace(SMALL, enabled_append_prop_crc=True)
ASKED = replace(WRITTEN, force_verify_prop_crc=True)
COUNT = 60
TARGET = Path("/salvaged")


def fill(store: MessageStore, count: int = COUNT) -> list[int]:
    """Append messages; give their CommitLog offsets."""
    messages = [new_message(body=b"%d;" % n * 9, tags="t", keys=f"k{n}") for n in range(count)]
    return [appended.physical_offset for appended in store.append(messages)]


def bodies(store: MessageStore) -> list[bytes]:
    return [decode(record).body for record in records(store)]


def records(store: MessageStore) -> Iterator[bytes]:
    """What a consumer gets, which passes over what is damaged."""
    offset = 0
    while offset < store.max_queue_offset("Orders", 0):
        result = store.get("Orders", 0, offset)
        assert result.next_offset > offset
        yield from result.records
        offset = result.next_offset


def flip_tag(disk: MemoryDisk, offset: int) -> None:
    """Change a letter of the properties of the record at an offset, which no other check sees."""
    path = layout.commitlog_path(ROOT, offset - offset % SMALL.mapped_file_size_commit_log)
    position = offset % SMALL.mapped_file_size_commit_log
    data = disk.load(path)
    at = data.index(b"TAGS\x01t", position) + 5
    disk.open(path, writable=True).write(at, b"u")


def test_what_is_appended_ends_in_it_and_is_dispatched_as_before(open_store: OpenStore) -> None:
    store = open_store(ASKED)
    offsets = fill(store)
    assert [store.read_record(offset) for offset in offsets] == list(records(store))
    assert all(map(is_sealed, records(store)))
    assert len(bodies(store)) == COUNT
    assert [message.body for message in store.messages_by_key("Orders", "k7")] == [b"7;" * 9]


def test_what_was_sent_under_its_name_is_gone(open_store: OpenStore) -> None:
    sent = properties.encode({"A": "a", properties.CRC32: "0000000000", "KEYS": "k"})
    store = open_store(ASKED)
    (appended,) = store.append([new_message()._replace(properties=sent)])
    data = store.read_record(appended.physical_offset)
    assert data is not None and len(data) == appended.size
    assert decode(data).properties[:-SIZE] == b"A\x01a\x02KEYS\x01k\x02"


def test_it_counts_against_the_limit_of_properties(open_store: OpenStore) -> None:
    store = open_store(replace(ASKED, mapped_file_size_commit_log=1 << 17))
    most = b"p\x01" + b"v" * (MAX_LENGTH - SIZE - 3) + b"\x02"
    assert store.append([new_message()._replace(properties=most)])
    with pytest.raises(MessageIllegal, match="properties of 32768 bytes, the limit is 32767"):
        store.append([new_message()._replace(properties=b"q" + most)])


@pytest.mark.parametrize("settings", [WRITTEN, ASKED], ids=["written", "asked"])
def test_damage_to_properties_is_seen_by_who_asks(
    open_store: OpenStore, disk: MemoryDisk, settings: StoreSettings, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(settings)
    offsets = fill(store)
    flip_tag(disk, offsets[20])
    assert (store.read_record(offsets[20]) is None) == (settings is ASKED)
    assert len(bodies(store)) == (COUNT - 1 if settings is ASKED else COUNT)
    assert len(store.messages_by_key("Orders", "k20")) == (0 if settings is ASKED else 1)
    assert ("the record does not end in the property CRC" in caplog.text) == (settings is ASKED)
    store.close()
    again = open_store(settings)
    assert len(bodies(again)) == (COUNT - 1 if settings is ASKED else COUNT)
    assert again.recovered.set_aside is None


def test_a_start_rebuild_verify_and_salvage_take_it_for_any_other_damage(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(ASKED)
    offsets = fill(store)
    store.close()
    assert verify(ROOT, ASKED, layer=disk).state is State.SOUND
    flip_tag(disk, offsets[20])
    verified = verify(ROOT, ASKED, layer=disk)
    assert verified.state is State.DAMAGED and verified.messages == COUNT - 1
    assert any("property CRC" in finding.what for finding in verified.findings)
    assert [gap.first for gap in rebuild(ROOT, ASKED, layer=disk).gaps] == [20]
    with StoreDirectory(ROOT, ASKED, disk) as directory:
        assert [found.damage != "" for found in find(directory, FindQuery(key="k21"))] == [False]
        assert summarize(directory).log_end > offsets[-1]

    salvaged = salvage(ROOT, TARGET, ASKED, layer=disk)
    assert (salvaged.messages, [gap.first for gap in salvaged.gaps]) == (COUNT - 1, [20])
    assert verify(TARGET, ASKED, layer=disk).state is State.SOUND  # what fills the hole is sealed, too
    with MessageStore.open(TARGET, ASKED, files=disk) as sound:
        assert len(bodies(sound)) == COUNT - 1


def test_a_torn_end_is_found_wherever_it_is_torn(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(ASKED)
    offsets = fill(store, 5)
    end = store.written_offset
    store.wait_flushed().result(60)
    for cut in range(1, end - offsets[-1], 7):
        state = disk.after_power_loss()
        state.open(layout.commitlog_path(ROOT, 0), writable=True).write(end - cut, b"\xa5" * cut)
        assert len(bodies(open_store(ASKED, files=state))) == 4


@pytest.mark.parametrize("settings", [SMALL, WRITTEN], ids=["after", "before and after"])
@pytest.mark.parametrize("killed", [True, False])
def test_messages_that_were_stored_without_it_are_not_taken_for_damage(
    open_store: OpenStore, disk: MemoryDisk, settings: StoreSettings, *, killed: bool
) -> None:
    first = open_store(settings)
    fill(first, 7)
    first.close()
    without = open_store()
    at = 0 if settings is SMALL else without.written_offset
    fill(without, 7)
    if killed:
        disk = disk.after_kill()
    without.close()
    if killed or at == 0:
        with pytest.raises(SettingsError, match=f"byte {at}: .* set forceVerifyPropCRC = false"):
            open_store(ASKED, files=disk)
        assert disk.names(ROOT / "setaside") == []
    else:  # nothing is walked: what lies there is not given out, and stays
        assert len(bodies(open_store(ASKED, files=disk))) == 7
    assert len(bodies(open_store(WRITTEN, files=disk.after_kill()))) == 14


def test_a_store_that_a_real_broker_wrote_with_it_opens_and_goes_on(
    golden: Mapping[str, Path], tmp_path: Path
) -> None:
    root = shutil.copytree(golden["store-property-crc"], tmp_path / "store")
    settings = replace(
        ASKED,
        mapped_file_size_commit_log=1 << 18,
        mapped_file_size_consume_queue=6_000,
        max_hash_slot_num=100,
        max_index_num=400,
    )
    assert verify(root, settings).state is State.SOUND
    with MessageStore.open(root, settings) as store:
        assert store.recovered.damages == [] and store.recovered.set_aside is None
        found: list[StoredMessage] = list(store.messages("Sealed"))
        assert [message.body for message in found][:2] == [b"plain", b"own"] and len(found) == 11
        fill(store, 3)
        assert len(bodies(store)) == 3
    with MessageStore.open(root, settings) as store:
        assert len(bodies(store)) == 3 and store.recovered.damages == []
        data = store.read_record(store.append([new_message()])[0].physical_offset)
        assert data is not None and decode(data, crc=Crc.RECORD)
