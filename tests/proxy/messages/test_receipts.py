from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.receipts import ClientReceipt, parse_client_receipt
from cometmq.proxy.outcomes import Failure

HANDLE = ReceiptHandle(2, 1795602428484, 15000, 3, RetryFlag.NONE, "broker-a", 2, 3)
numbers = st.integers(-(2**63), 2**63 - 1)


def test_a_handle_is_that_of_remoting_and_the_place_of_the_message() -> None:
    receipt = ClientReceipt(HANDLE, 6877)
    assert str(receipt) == "2 1795602428484 15000 3 0 broker-a 2 3 6877"
    assert parse_client_receipt(str(receipt)) == receipt


@given(numbers, numbers, st.sampled_from(RetryFlag), st.text("abcZ0_-", min_size=1), st.integers(0, 2**62))
def test_a_handle_survives_both_ways(
    offset: int, time_ms: int, flag: RetryFlag, broker_name: str, physical_offset: int
) -> None:
    handle = ReceiptHandle(offset, time_ms, 1, 999, flag, broker_name, 0, offset)
    receipt = ClientReceipt(handle, physical_offset)
    assert parse_client_receipt(str(receipt)) == receipt


def test_a_handle_without_the_place_is_accepted() -> None:
    assert parse_client_receipt(str(HANDLE)) == ClientReceipt(HANDLE, -1)
    assert parse_client_receipt(f"{HANDLE} x") == ClientReceipt(HANDLE, -1)


def test_a_handle_names_the_worker_that_prolongs_the_message() -> None:
    receipt = ClientReceipt(HANDLE, 6877, 2)
    assert str(receipt) == "2 1795602428484 15000 3 0 broker-a 2 3 6877 2"
    assert parse_client_receipt(str(receipt)) == receipt
    assert parse_client_receipt(f"{HANDLE} 6877 x y") == ClientReceipt(HANDLE, 6877)


@given(st.text())
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    with suppress(Failure):
        assert str(parse_client_receipt(text)).split(" ")[:8] == text.split(" ")[:8]


def test_a_handle_expires_with_its_invisible_time() -> None:
    receipt, end_ms = ClientReceipt(HANDLE, 0), 1795602428484 + 15000
    receipt.check_valid(end_ms - 1)
    with pytest.raises(Failure) as caught:
        receipt.check_valid(end_ms)
    assert caught.value.code == pb.INVALID_RECEIPT_HANDLE
