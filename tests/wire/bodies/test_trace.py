import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.wire.bodies.trace import (
    NO_KEYS,
    AfterTrace,
    BeforeTrace,
    MessageKind,
    Outcome,
    PubTrace,
    Trace,
    decode,
    encode,
)

TRACE = PubTrace(
    1_700_000_000_000,
    "DefaultRegion",
    "shop",
    "Orders",
    "7F00000100002A9F0000000000000000",
    "paid",
    "42 ann",
    "127.0.0.1:10911",
    128,
    3,
    MessageKind.DELAYED,
    "7F00000100002A9F" + 16 * "0",
    success=True,
)


def test_a_send_is_written_as_rocketmq_writes_it() -> None:
    fields = (
        "Pub 1700000000000 DefaultRegion shop Orders 7F00000100002A9F0000000000000000 paid 42|ann "
        "127.0.0.1:10911 128 3 3 7F00000100002A9F0000000000000000 true"
    )
    assert encode([TRACE]) == (fields.replace(" ", "\x01").replace("|", " ") + "\x02").encode()


def test_what_is_handled_is_written_as_rocketmq_writes_it() -> None:
    before = BeforeTrace(1_700_000_000_000, "DefaultRegion", "shop", "REQUEST", "ID", 2, "42")
    after = AfterTrace("REQUEST", "ID", 7, False, "42", Outcome.FAILED, 1_700_000_000_007, "shop")
    lines = (
        "SubBefore 1700000000000 DefaultRegion shop REQUEST ID 2 42",
        "SubAfter REQUEST ID 7 false 42 4 1700000000007 shop",
    )
    assert encode([before._replace(keys="")]).endswith(b"\x012\x01null\x02")
    assert encode([before, after]) == "".join(f"{line}\x02" for line in lines).replace(" ", "\x01").encode()


texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=9)


keys = texts.filter(lambda text: text != NO_KEYS)  # it stands for no keys
numbers = st.integers(0, 2**63 - 1)
kinds = st.sampled_from(MessageKind)
traces = st.one_of(
    st.builds(PubTrace, numbers, *[texts] * 7, numbers, numbers, kinds, texts, st.booleans()),
    st.builds(BeforeTrace, numbers, *[texts] * 4, numbers, keys),
    st.builds(
        AfterTrace, texts, texts, numbers, st.booleans(), texts, st.sampled_from(Outcome), numbers, texts
    ),
)


@given(st.lists(traces))
def test_what_is_written_is_what_is_read(traces: list[Trace]) -> None:
    assert decode(encode(traces)) == traces


def test_records_of_other_kinds_are_passed_over_and_a_client_host_at_the_end_too() -> None:
    body = b"Recall\x011\x02" + encode([TRACE])[:-1] + b"\x0110.0.0.1\x02EndTransaction\x01x\x02"
    assert decode(body) == [TRACE]


@pytest.mark.parametrize(
    "body",
    [
        b"Pub\x02",
        b"Pub\x01now" + 12 * b"\x01x",
        b"Pub\x011\x01x\x02",
        b"SubBefore\x011\x02",
        b"SubBefore\x02",
        b"SubBefore\x01" + b"9" * 400 + b"\x01r\x01g\x01i\x01m\x010\x01k\x02",
    ],
)
def test_a_record_that_is_cut_or_has_no_number_of_java_is_told(body: bytes) -> None:
    with pytest.raises(FormatError, match="trace of"):
        decode(body)
