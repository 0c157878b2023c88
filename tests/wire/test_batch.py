import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError, MessageIllegal
from cometmq.wire import batch
from cometmq.wire.batch import BatchMessage, decode, encode

# Two messages as RocketMQ's MessageDecoder.encodeMessages writes them.
FROM_JAVA = bytes.fromhex(
    "000000370000000000000000000000000000000568656c6c6f001c4b455953016b310257414954017472756502544147530154616741"
    "020000003800000000000000000000000300000006776f726c6421001c4b455953016b32025741495401747275650254414753015461"
    "674202"
)
MESSAGES = [
    BatchMessage(b"hello", b"KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA\x02"),
    BatchMessage(b"world!", b"KEYS\x01k2\x02WAIT\x01true\x02TAGS\x01TagB\x02", 3),
]


def test_reads_and_writes_a_batch_as_a_java_client_does() -> None:
    assert decode(FROM_JAVA) == MESSAGES
    assert encode(MESSAGES) == FROM_JAVA


@given(
    st.lists(
        st.builds(
            BatchMessage, st.binary(max_size=50), st.binary(max_size=50), st.integers(-(2**31), 2**31 - 1)
        )
    )
    | st.lists(  # many that are as long as the one before
        st.builds(BatchMessage, st.binary(max_size=1), st.binary(max_size=1), st.integers(0, 1))
    )
)
def test_a_batch_comes_back_as_it_went(messages: list[BatchMessage]) -> None:
    assert decode(encode(messages)) == messages


def test_every_cut_of_a_batch_is_noticed_or_falls_between_messages() -> None:
    border = 0x37
    for size in range(len(FROM_JAVA)):
        if size in (0, border):
            assert decode(FROM_JAVA[:size]) == MESSAGES[: size // border]
        else:
            with pytest.raises(FormatError, match=r"batch message at \d+"):
                decode(FROM_JAVA[:size])


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">5ih", 22, 0, 0, 0, -1, 0),
        struct.pack(">5ih", 22, 0, 0, 0, 1, 0),
        struct.pack(">5ih", 22, 0, 0, 0, 2**31 - 1, 0),
        struct.pack(">5ih", 22, 0, 0, 0, 0, -1),
        struct.pack(">5ih", 23, 0, 0, 0, 0, 1),
        struct.pack(">5ih", 23, 0, 0, 0, 0, 0),
        struct.pack(">5ih", -22, 0, 0, 0, 0, 0),
    ],
)
def test_lengths_that_do_not_fit_are_refused(head: bytes) -> None:
    with pytest.raises(FormatError, match="batch message at 0"):
        decode(head)


@given(st.binary(max_size=100))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        decode(data)


def test_too_many_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "COUNT_MAX", 1)
    with pytest.raises(FormatError, match="more than 1 messages"):
        decode(FROM_JAVA)


def test_properties_that_are_too_long_are_not_written() -> None:
    assert len(encode([BatchMessage(b"", bytes(32_767))])) == 32_767 + batch.SIZE_MIN
    with pytest.raises(MessageIllegal, match="32768 bytes, at most 32767"):
        encode([BatchMessage(b"", bytes(32_768))])
