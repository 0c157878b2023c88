"""What the plain operation on sends encodes though the compiled one leaves it, and what every body leaves."""

import json
from unittest.mock import MagicMock

import pytest
from tests.kernels.sending import ADDED, HOST, USUAL, Reader, framed, header, json_frame

from cometmq.format.record import decode
from cometmq.kernels import plain
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import RARE, RARE_IN_BATCHES
from cometmq.wire import batch
from cometmq.wire.codes import RequestCode

KEY = "UNIQ_KEY\x01abc\x02"


@pytest.mark.parametrize(
    "data",
    [
        json_frame({"e": 1}),
        json_frame({"d": "4.0"}),
        json_frame({"n": None}),
        json_frame({"a": "gr\u00fcppe"}),
        json_frame(opaque="17"),
        json_frame({"g": "9223372036854775807"}),
        json_frame({"i": f"MSG_REGIONAL\x01x\x02{KEY}"}),
        framed(json.dumps(header()).replace('"b"', '"\\u0062"').encode()),
    ],
)
def test_what_the_compiled_body_leaves_for_its_spelling_is_encoded(compiled: Ops, data: bytes) -> None:
    assert Reader(plain).takes(data)
    assert not Reader(compiled).takes(data)


def test_a_send_is_stored_with_what_the_broker_adds() -> None:
    reader = Reader(plain)
    assert reader.takes(json_frame({"e": "3", "h": "-7"}, b"hello", opaque=9))
    record = decode(bytes(reader.batch.records))
    assert (record.topic, record.queue_id, record.queue_offset, record.flag) == ("T", 3, 30, -7)
    assert (record.body, record.properties) == (b"hello", USUAL["i"].encode() + ADDED)
    assert (record.born_host, record.store_host) == (HOST, HOST)


@pytest.mark.parametrize("name", sorted(RARE))
def test_a_send_with_a_property_that_the_broker_looks_at_is_left(compiled: Ops, name: str) -> None:
    data = json_frame({"i": f"{name}\x011\x02{KEY}"})
    assert not Reader(plain).takes(data)
    assert not Reader(compiled).takes(data)


@pytest.mark.parametrize("name", sorted(RARE))
def test_a_batch_is_left_if_a_message_asks_for_something(compiled: Ops, name: str) -> None:
    properties = f"{name}\x011\x02{KEY}".encode()
    members = [batch.BatchMessage(b"x", KEY.encode()), batch.BatchMessage(b"y", properties)]
    data = json_frame(body=batch.encode(members), code=int(RequestCode.SEND_BATCH_MESSAGE))
    for ops in (plain, compiled):
        reader = Reader(ops)
        assert reader.takes(data) == (name not in RARE_IN_BATCHES)
        assert reader.next_offsets[1] == 10 + reader.batch.message_count


def test_what_was_numbered_before_something_fails_can_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(plain)

    find = MagicMock(side_effect=[1, KeyError("a mistake")])
    monkeypatch.setitem(reader.topics.queues, "T", MagicMock(get=find))
    with pytest.raises(KeyError):
        reader.read(json_frame() * 2)
    assert reader.next_offsets.tolist() == [0, 11, 20, 30]
    reader.batch.take_back()
    assert reader.next_offsets.tolist() == [0, 10, 20, 30]
