"""The plain operations on pulls: what they read though kernels leave it, and rows of commands."""

import json
from struct import pack

import pytest
from tests.kernels.pulling import USUAL, Reader, header, json_frame
from tests.kernels.reading import framed

from cometmq.kernels import plain
from cometmq.kernels.pulls.plain import key_of, row_of
from cometmq.kernels.pulls.rows import KEY_SIZE_MAX, NO_LIMIT, NOTHING_TO_COMMIT
from cometmq.wire.frame import decode
from cometmq.wire.headers import PullHeader, parse


@pytest.fixture
def reader() -> Reader:
    return Reader(plain)


@pytest.mark.parametrize("text", ["0", str(2**63 - 1)])
def test_numbers_are_read_as_in_commands(reader: Reader, text: str) -> None:
    assert reader.reads(json_frame({"queueOffset": text}))
    assert reader.rows[0].queue_offset == int(text)


def test_members_come_in_any_order_and_with_blanks(reader: Reader) -> None:
    members = dict(sorted(header().items(), reverse=True))
    assert reader.reads(framed(json.dumps(members).encode()))
    assert not reader.reads(framed(json.dumps(members | {"code": 310}).encode()))


@pytest.mark.parametrize("frame", [json_frame({"topic": "\u00fc"}), json_frame({"topic": 'q"'})])
def test_what_needs_an_escape_is_left(reader: Reader, frame: bytes) -> None:
    assert not reader.reads(frame)


@pytest.mark.parametrize("frame", [pack(">iI", 3, 0) + b"   ", pack(">iI", 4, 1 << 25), b"short"])
def test_what_is_no_frame_is_left_with_all_that_follows(reader: Reader, frame: bytes) -> None:
    data = frame + json_frame()
    assert reader.read(data) == (0, len(data))


def test_a_row_of_a_command_is_that_of_its_frame(reader: Reader) -> None:
    frame = json_frame()
    assert reader.reads(frame)
    command = decode(frame)
    pull = parse(PullHeader, command.ext_fields)
    row, read = row_of(command, pull), reader.rows[0]
    assert row[:10] == read[:10]
    assert key_of(command.code, pull) == reader.key()


def test_what_is_absent_has_a_number_in_its_place() -> None:
    fields = {name: text for name, text in USUAL.items() if name != "maxMsgBytes"} | {"sysFlag": "2"}
    command = decode(json_frame())
    row = row_of(command, parse(PullHeader, fields))
    assert (row.max_bytes, row.commit_offset) == (NO_LIMIT, NOTHING_TO_COMMIT)


def test_a_key_that_is_too_long_is_none() -> None:
    pull = parse(PullHeader, USUAL | {"topic": "x" * KEY_SIZE_MAX})
    assert key_of(11, pull) is None
