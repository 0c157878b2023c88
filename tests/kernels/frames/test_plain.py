"""What is read of signed requests, by both bodies."""

import json
import struct

import pytest
from tests.kernels.reading import framed, java_header
from tests.kernels.signing import ANN, USUAL, read_signed, signed_frame

from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.wire.acl import ADDED_AFTER_SIGNING, signed_content, signing_key
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import decode


def test_what_is_signed_is_read_as_the_signer_has_written_it(ops: Ops) -> None:
    frame = signed_frame({"i": 'KEYS\x01"k\\\u00e9\u4e2d\x02'}, b"what it brings")
    (row,) = read_signed(ops, b"x" + frame, 1)
    command = decode(frame)
    assert row.end == 1 + len(frame) and (b"x" + frame)[row.body_at :] == command.body
    assert row.signed + command.body == signed_content(command.ext_fields, command.body, command.version)
    assert row.signature.decode() == command.ext_fields["Signature"]
    assert signing_key(ANN.secret_key).has_signed(row.signature, row.signed, command.body)


def test_fields_are_signed_in_the_order_of_their_names_in_whatever_order_they_come(ops: Ops) -> None:
    fields = dict(sorted(decode(signed_frame()).ext_fields.items(), reverse=True))
    frame = framed(json.dumps(java_header(310, 7, fields)).encode(), b"body")
    assert [row.signed for row in read_signed(ops, frame)] == [read_signed(ops, signed_frame())[0].signed]


def key(code: int, flag: int, *names: str | None) -> bytes:
    return struct.pack(">ii", code, flag) + b"".join(map(packed, names))


def packed(text: str | None) -> bytes:
    encoded = (text or "").encode()
    return struct.pack(">i", -1 if text is None else len(encoded)) + encoded


def test_a_key_has_the_sender_the_code_and_what_is_named(ops: Ops) -> None:
    named = {"topic": "T", "consumerGroup": ""}
    data = signed_frame() + signed_frame(named, flag=2) + signed_frame({"e": "4"})
    assert [row.key for row in read_signed(ops, data)] == [
        key(310, 0, "ann", None, "orders", None),
        key(310, 2, "ann", "T", "orders", ""),
        key(310, 0, "ann", None, "orders", None),
    ]


def test_an_unsigned_request_is_read_too_and_has_no_signature(ops: Ops) -> None:
    frame = framed(json.dumps(java_header(310, 7, USUAL)).encode(), b"body")
    (row,) = read_signed(ops, frame)
    assert (row.signature, row.key) == (b"", key(310, 0, None, None, "orders", None))


@pytest.mark.parametrize(
    "other",
    [
        signed_frame(code=RequestCode.HEART_BEAT),
        signed_frame(code=RequestCode.SEND_MESSAGE),
        signed_frame(flag=1),
        signed_frame(code=RequestCode.VIEW_MESSAGE_BY_ID, body=b""),
        signed_frame({ADDED_AFTER_SIGNING: "true"}),
        framed(json.dumps(java_header(310, 7, {})).encode(), b"body"),
        framed(b'{"code":310}'),
        framed(b'{"code":310,'),
        framed(b""),
    ],
)
def test_reading_ends_before_what_is_left(ops: Ops, other: bytes) -> None:
    assert len(read_signed(ops, signed_frame() * 2 + other + signed_frame())) == 2


@pytest.mark.parametrize("size", [-1, 5])
def test_a_frame_that_is_cut_off_is_left(ops: Ops, size: int) -> None:
    assert len(read_signed(ops, signed_frame() * 2 + signed_frame()[:size])) == 2


def test_no_more_are_read_than_there_is_room_for(ops: Ops) -> None:
    data = signed_frame() * 10
    assert len(read_signed(ops, data, into=Frames(are_signed=True, count=4))) == 4
    some = read_signed(ops, data, into=Frames(are_signed=True, texts_size=4 * len(signed_frame())))
    assert 0 < len(some) < 10


@pytest.mark.parametrize("text", ["", "x" * 70_000, "\x00", "\ud7ff\uffff", "\x7f", '\\"'])
def test_properties_may_be_any_text(ops: Ops, text: str) -> None:
    into = Frames(are_signed=True, texts_size=1_000_000)
    (row,) = read_signed(ops, signed_frame({"i": text}), into=into)
    assert signing_key(ANN.secret_key).has_signed(row.signature, row.signed, b"body")
    assert row.key == key(310, 0, "ann", None, "orders", None)
