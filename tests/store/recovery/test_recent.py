import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format.record import MAGIC_V1, decode
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore, NewMessage
from cometmq.testing.memory_disk import MemoryDisk

SOUGHT = b"KEY\1"
ALL = 1 << 40
LARGER = replace(SMALL, mapped_file_size_commit_log=1 << 17)


def keyed() -> NewMessage:
    return new_message()._replace(properties=SOUGHT + b"k\2")


def found(store: MessageStore, since_ms: int = 0, bytes_max: int = ALL) -> list[int]:
    return [head.physical_offset for _, head in store.recent(since_ms, bytes_max, SOUGHT)]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 100, 1_100, 70_000]),
            st.sampled_from([b"", SOUGHT, MAGIC_V1.to_bytes(4, "big"), SOUGHT * 2]),
            st.sampled_from([b"", b"a\1b\2", SOUGHT + b"k\2", b"a\1b\2" + SOUGHT + b"k\2c\1d\2"]),
        ),
        max_size=12,
    )
)
def test_all_records_with_the_bytes_are_found_and_no_others(parts: list[tuple[int, bytes, bytes]]) -> None:
    messages = [
        new_message(body=tail + bytes(size) + tail)._replace(properties=properties)
        for size, tail, properties in parts
    ]
    with MessageStore.open(ROOT, LARGER, files=MemoryDisk(), clock=ManualClock()) as store:
        placed = [store.append([message])[0] for message in messages]
        wanted = [
            one.physical_offset
            for one, message in zip(placed, messages, strict=True)
            if SOUGHT in message.body + message.properties
        ]
        assert found(store) == wanted
        for one in placed:
            size = store.written_offset - one.physical_offset
            assert found(store, bytes_max=size) == [at for at in wanted if at >= one.physical_offset]
            assert found(store, bytes_max=size - 1) == [at for at in wanted if at > one.physical_offset]


def test_the_search_begins_at_a_time(open_store: OpenStore, clock: ManualClock) -> None:
    store = open_store()
    placed = []
    for _ in range(60):
        clock.advance(10)
        placed += store.append([keyed(), new_message()])
    for one in placed[::2]:
        assert found(store, one.store_time) == [
            other.physical_offset for other in placed[::2] if other.store_time >= one.store_time
        ]
    assert found(store, placed[-1].store_time + 1) == []


def test_damage_hides_no_record_behind_it(open_store: OpenStore) -> None:
    with open_store() as store:
        placed = store.append([keyed() for _ in range(5)])
        file = store._log.chain.file(0)
        file.write(placed[2].physical_offset, bytes(60))
        assert found(store) == [one.physical_offset for n, one in enumerate(placed) if n != 2]


def test_an_empty_log_has_none(open_store: OpenStore) -> None:
    assert found(open_store()) == []


def test_a_head_is_that_of_the_record_in_the_bytes(open_store: OpenStore) -> None:
    store = open_store()
    store.append([keyed()])
    ((buffer, head),) = store.recent(0, ALL, SOUGHT)
    assert decode(buffer, head.position).body == b"body"
    assert head.size == store.written_offset


@pytest.mark.parametrize("count", [0, 1])
def test_a_store_without_such_bytes_has_none(open_store: OpenStore, count: int) -> None:
    store = open_store()
    store.append([new_message() for _ in range(count)])
    assert found(store) == []
