"""The plain operations on queries: what they read though the compiled ones leave it, and rows of commands."""

import pytest
from tests.kernels.querying import BY_KEY, Reader, by_id, by_key, new_rows
from tests.kit.index_rows import record_of

from cometmq.format.dispatch import KeyKind
from cometmq.format.record import read_head
from cometmq.kernels import plain
from cometmq.kernels.queries.plain import add, has_row, record_has_key
from cometmq.kernels.queries.rows import TEXTS_SIZE, UNIQUE_COUNT
from cometmq.wire.frame import decode
from cometmq.wire.headers import QueryMessageHeader, ViewMessageHeader, parse


@pytest.fixture
def reader() -> Reader:
    return Reader(plain)


@pytest.mark.parametrize("text", ["9223372036854775806", "-9223372036854775808"])
def test_numbers_are_read_as_in_commands(reader: Reader, text: str) -> None:
    assert reader.reads(by_id(text))
    assert reader.queries.offsets[0, 0] == int(text)


@pytest.mark.parametrize("text", ["1", "true"])
def test_words_are_read_as_in_commands(reader: Reader, text: str) -> None:
    assert reader.reads(by_key({"_UNIQUE_KEY_QUERY": text}))
    assert reader.row("is_unique", "max_count") == [1, UNIQUE_COUNT]


@pytest.mark.parametrize("frame", [by_key(opaque=-3), by_id(1 << 40, binary=True)])
def test_a_row_is_added_from_the_parts_of_its_frame(reader: Reader, frame: bytes) -> None:
    assert reader.reads(frame)
    command, rows = decode(frame), new_rows()
    header = parse(QueryMessageHeader if command.code == 12 else ViewMessageHeader, command.ext_fields)
    assert has_row(header)
    add(rows, command, header, 0)
    assert rows.count == 1
    assert rows.array.tolist() == reader.queries.array.tolist()
    assert rows.texts.tolist() == reader.queries.texts.tolist()
    assert rows.offsets[0, 0] == reader.queries.offsets[0, 0]


@pytest.mark.parametrize("key", ["gr\u00fcn", "\ud800", "k" * TEXTS_SIZE])
def test_a_key_that_has_no_room_or_is_not_ascii_makes_no_row(key: str) -> None:
    assert not has_row(parse(QueryMessageHeader, BY_KEY | {"key": key}))


def test_a_record_has_the_keys_of_its_own_topic() -> None:
    record = record_of(0, 0)
    head = read_head(record, 0)
    assert record_has_key(record, head, "T", "k1", KeyKind.ANY)
    assert not record_has_key(record, head, "T", "k1", KeyKind.UNIQUE)
    assert not record_has_key(record, head, "T2", "k1", KeyKind.ANY)
