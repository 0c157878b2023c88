import pytest
from tests.kit.messages import new_stored

from cometmq.admin.readable import body_text, duration_text, excerpt_of, time_text
from cometmq.format.compression import compress
from cometmq.format.sys_flag import COMPRESSED, CompressionType, compressed_with


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"plain", "plain"),
        ("größer\tals\r\n".encode(), "größer\tals\r\n"),
        (b"", ""),
        (b"\xff\xfe", None),
        (b"\x1b[2J", None),
        (b"a\x00b", None),
    ],
)
def test_a_body_is_text_if_people_can_read_it(body: bytes, text: str | None) -> None:
    assert body_text(body) == text


def test_times_are_utc_and_one_that_no_calendar_has_stays_a_number() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(1_600_000_000_123) == "2020-09-13T12:26:40.123Z"
    for beyond in (2**63 - 1, -(2**63), 300_000_000_000_000):
        assert time_text(beyond) == str(beyond)


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [(-1, "0s"), (999, "0s"), (61_000, "1m 1s"), (3_600_000, "1h"), (90_061_000, "1d 1h")],
)
def test_a_length_of_time_is_told_by_its_largest_units(length_ms: int, text: str) -> None:
    assert duration_text(length_ms) == text


def test_of_a_text_that_is_cut_the_last_character_is_left_out() -> None:
    cut = "größe".encode()[:4]
    assert body_text(cut, is_whole=False) == "grö" and body_text(cut[:3], is_whole=False) == "gr"
    assert body_text(cut[:3]) is None and body_text(b"\xff", is_whole=False) is None


@pytest.mark.parametrize("compression", CompressionType)
def test_of_a_message_only_the_beginning_of_its_body_is_kept(compression: CompressionType) -> None:
    bomb = compress(bytes(10_000_000), compression)
    stored = new_stored(bomb, sys_flag=compressed_with(0, compression))
    excerpt = excerpt_of(stored, 7)
    assert excerpt.message == new_stored(b"", sys_flag=stored.sys_flag)
    assert excerpt[1:] == (bytes(7), False, len(bomb), compression.name.lower())
    small = new_stored(compress(b"small", compression), sys_flag=stored.sys_flag)
    whole = excerpt_of(small, 7)
    assert whole[1:] == (b"small", True, 5, None) and not whole.message.sys_flag & COMPRESSED


def test_a_damaged_body_is_kept_as_it_is_stored() -> None:
    damaged = new_stored(b"no zlib", sys_flag=COMPRESSED)
    assert excerpt_of(damaged)[1:] == (b"no zlib", True, 7, "zlib")
    assert excerpt_of(new_stored(b"x" * 9, sys_flag=COMPRESSED | 0x700), 3).compression == "unknown type 7"
    assert excerpt_of(new_stored(b"plain"), 3)[1:] == (b"pla", False, 5, None)
