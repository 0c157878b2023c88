import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt

LONG = st.integers(-(2**63), 2**63 - 1)
NAME = st.text("abcXYZ019_-%|", min_size=1, max_size=20)


def test_a_handle_has_eight_tokens_as_a_java_broker_writes_them() -> None:
    handle = ReceiptHandle(2, 1795602428484, 15000, 3, RetryFlag.NONE, "broker-a", 2, 3)
    assert str(handle) == "2 1795602428484 15000 3 0 broker-a 2 3"
    assert parse_receipt("0 1795602433368 15000 6 1 broker-a 0 0") == ReceiptHandle(
        0, 1795602433368, 15000, 6, RetryFlag.V1, "broker-a", 0, 0
    )


@given(st.builds(ReceiptHandle, LONG, LONG, LONG, LONG, st.sampled_from(RetryFlag), NAME, LONG, LONG))
def test_each_handle_is_decoded_as_it_was(handle: ReceiptHandle) -> None:
    assert parse_receipt(str(handle)) == handle


def test_what_the_proxy_of_rocketmq_adds_is_ignored() -> None:
    assert parse_receipt("2 3 4 5 0 b 6 7 6877") == parse_receipt("2 3 4 5 0 b 6 7")


@pytest.mark.parametrize(
    "text",
    [
        *("", "1 2 3 4 0 b 5", "1 2 3 4 3 b 5 6", "1 2 3 x 0 b 5 6", "1  2 3 4 0 b 5 6"),
        f"{2**63} 2 3 4 0 b 5 6",
    ],
)
def test_other_texts_are_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(
        FormatError, match="is not a receipt handle of eight tokens: give the property POP_CK"
    ):
        parse_receipt(text)
