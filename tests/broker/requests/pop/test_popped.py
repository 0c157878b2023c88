import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.requests.pop.popped import queue_offsets, with_handle
from cometmq.format import properties, property_crc
from cometmq.format.properties import MAX_LENGTH
from cometmq.format.record import Record, decode, encode

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
RETRY = "%RETRY%g_T"
HANDLE = "5 1795602428484 15000 3 1 broker-a 0 7"


def record(named: bytes = b"", *, topic: str = RETRY, queue_offset: int = 7, body: bytes = b"body") -> Record:
    return Record(topic, body, named, 0, queue_offset, 99, 5, 1, 10, HOST, 20, HOST, reconsume_times=2)


@given(st.dictionaries(st.sampled_from(["KEYS", "TAGS", "a"]), st.text("xyz", min_size=1)))
def test_all_but_the_topic_stays_and_the_handle_is_added(named: dict[str, str]) -> None:
    before = record(properties.encode(named))
    after = decode(with_handle(encode(before), "T", HANDLE))
    assert properties.decode(after.properties) == named | {"POP_CK": HANDLE}
    assert after == before._replace(
        topic="T", properties=after.properties, body_crc=after.body_crc, magic=after.magic
    )
    assert after.body_crc == decode(encode(before)).body_crc


@pytest.mark.parametrize("before", [b"a\x01b", b"a\x01b\x02", b"\x02", b""])
def test_the_handle_is_a_property_of_its_own(before: bytes) -> None:
    after = decode(with_handle(encode(record(before)), "T", HANDLE))
    assert properties.decode(after.properties) == properties.decode(before) | {"POP_CK": HANDLE}


def test_a_handle_that_is_there_stays() -> None:
    for named in ({"POP_CK": "old"}, {"a": "b", "POP_CK": "old"}):
        after = decode(with_handle(encode(record(properties.encode(named))), "T", HANDLE))
        assert properties.decode(after.properties) == named
    other = decode(with_handle(encode(record(properties.encode({"XPOP_CK": "x"}))), "T", HANDLE))
    assert properties.decode(other.properties) == {"XPOP_CK": "x", "POP_CK": HANDLE}


def test_a_record_without_room_for_a_handle_stays_as_it_is() -> None:
    full = encode(record(properties.encode({"a": "x" * (MAX_LENGTH - 40)})))
    assert with_handle(full, "T", HANDLE) == full


def test_a_property_crc_goes_since_it_covers_the_other_topic() -> None:
    sealed = property_crc.seal(encode(record(property_crc.reserve(properties.encode({"a": "b"})))))
    after = decode(with_handle(sealed, "T", HANDLE))
    assert properties.decode(after.properties) == {"a": "b", "POP_CK": HANDLE}


def test_a_long_retry_topic_s_record_gets_the_short_form() -> None:
    long = encode(record(topic=f"%RETRY%{'g' * 120}_T"))
    assert decode(with_handle(long, "T", HANDLE)).topic == "T"


@given(st.lists(st.tuples(st.integers(0, 2**40), st.binary(max_size=9)), max_size=5))
def test_queue_offsets_are_those_of_the_records(records: list[tuple[int, bytes]]) -> None:
    encoded = [encode(record(queue_offset=offset, body=body)) for offset, body in records]
    found = queue_offsets(b"".join(encoded), map(len, encoded))
    assert found == tuple(offset for offset, _ in records)
