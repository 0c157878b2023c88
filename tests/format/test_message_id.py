from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.host import pack_host
from cometmq.format.message_id import (
    OffsetMessageId,
    UniqueIdMaker,
    offset_message_id,
    parse_offset_message_id,
    unique_id_time,
)

HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
CHINA = timezone(timedelta(hours=8))


def ms(date: str, tz: timezone = UTC) -> int:
    return int(datetime.fromisoformat(date).replace(tzinfo=tz).timestamp()) * 1000


@given(HOSTS, st.integers(-(2**63), 2**63 - 1))
def test_what_an_offset_id_says_is_read_back(host: bytes, offset: int) -> None:
    text = offset_message_id(host, offset)
    assert len(text) in (32, 56)
    assert text == text.upper()
    assert parse_offset_message_id(text) == parse_offset_message_id(text.lower())
    assert parse_offset_message_id(text) == OffsetMessageId(host, offset)


def test_an_offset_id_is_the_one_that_rocketmq_makes() -> None:
    assert offset_message_id(pack_host("127.0.0.2", 30911), 0) == "7F000002000078BF0000000000000000"


@pytest.mark.parametrize(
    "text", ["", "7F", "0" * 31, "0" * 33, "0" * 54, "G" * 32, "00 " * 10 + "00", "٠" * 32]
)
def test_a_text_that_is_no_id_is_an_error(text: str) -> None:
    with pytest.raises(FormatError, match="message id"):
        parse_offset_message_id(text)
    with pytest.raises(FormatError, match="message id"):
        unique_id_time(text, 0, UTC)


def test_a_unique_id_is_the_one_that_rocketmq_makes() -> None:
    address = bytes.fromhex("FD000000000000000000000000000002")
    maker = UniqueIdMaker(address, 0x3E82, 0x30946E09, UTC)
    assert maker.make(1_795_245_155_741) == "FD0000000000000000000000000000023E8230946E09688B3D9D0000"


def test_a_unique_id_of_an_ipv4_machine_has_32_characters() -> None:
    maker = UniqueIdMaker(bytes([127, 0, 0, 1]), 0x12345, -1, UTC)
    assert maker.make(ms("2026-11-01") + 1) == "7F0000012345FFFFFFFF000000010000"


def test_the_counter_goes_on_from_ms_to_ms_and_wraps() -> None:
    maker = UniqueIdMaker(bytes(4), 0, 0, UTC)
    start = ms("2026-11-21")
    ids = [maker.make(start + number // 100) for number in range(0x10001)]
    assert [text[-4:] for text in (*ids[:2], *ids[-2:])] == ["0000", "0001", "FFFF", "0000"]
    assert len(set(ids)) == len(ids)


def test_ids_made_together_are_as_those_made_one_by_one() -> None:
    maker = UniqueIdMaker(bytes(4), 0, 0, UTC)
    start = ms("2026-11-21")
    ids = [maker.make(start), *maker.make_many(start, 3), maker.make(start)]
    assert len({text[:-4] for text in ids}) == 1
    assert ids == sorted(set(ids))


def test_the_time_begins_anew_with_the_month() -> None:
    maker = UniqueIdMaker(bytes(4), 0, 0, CHINA)
    last = ms("2026-12-31T23:59:59", CHINA)
    assert int(maker.make(last)[20:28], 16) == 31 * 86_400_000 - 1000
    assert int(maker.make(last + 1500)[20:28], 16) == 500
    assert int(maker.make(ms("2027-02-01", CHINA))[20:28], 16) == 0


def test_a_clock_that_steps_back_over_the_months_beginning_makes_no_negative_time() -> None:
    maker = UniqueIdMaker(bytes(4), 0, 0, UTC)
    begin = ms("2026-11-01")
    assert int(maker.make(begin + 7)[20:28], 16) == 7
    assert int(maker.make(begin - 1000)[20:28], 16) == 0
    assert int(maker.make(begin - 86_400_000)[20:28], 16) == 30 * 86_400_000


@given(
    st.integers(ms("1980-01-01"), ms("2100-01-01")),
    st.integers(0, 27 * 86_400_000),
    st.sampled_from([UTC, CHINA]),
)
def test_the_time_is_read_back_within_a_month(made_ms: int, age_ms: int, tz: timezone) -> None:
    text = UniqueIdMaker(bytes(16), 1, 2, tz).make(made_ms)
    assert unique_id_time(text, made_ms + age_ms, tz) == made_ms


def test_local_time_counts_unless_told() -> None:
    made_ms = ms("2026-11-01T00:30")
    assert unique_id_time(UniqueIdMaker(bytes(4), 1, 2).make(made_ms), made_ms + 1) == made_ms


def test_ids_of_a_real_producer_tell_when_it_made_them(golden_facts: Mapping[str, Any]) -> None:
    for message in golden_facts["store-clean-dump"]["messages"]:
        if message["topic"] == "GoldenA" and message["properties"].get("TIMER_OUT_MS") is None:
            made_ms = unique_id_time(message["msgId"], message["storeTimestamp"], UTC)
            assert 0 <= message["bornTimestamp"] - made_ms < 1000
