"""Receipt handles: which is the present one, and when it expires by the broker's time."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.pops import POP_TIME_MS, record

from cometmq.arguments import check
from cometmq.client.consumer.pop import receipts as receipts_module
from cometmq.client.consumer.pop.receipts import POPPED, PopReceipts
from cometmq.errors import FormatError, IllegalArgument, IllegalType, ReceiptExpired
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.format.stored import message_as_stored
from cometmq.io.clock import ManualClock
from cometmq.message import StoredMessage

FIRST = ReceiptHandle(0, POP_TIME_MS, 15_000, 3, RetryFlag.NONE, "a", 2, 0)


def popped(handle: ReceiptHandle | str = FIRST) -> StoredMessage:
    return message_as_stored(record(0, b"x", POP_CK=str(handle)))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def receipts(clock: ManualClock) -> PopReceipts:
    return PopReceipts(clock)


def test_a_handle_expires_when_its_time_has_passed_here(receipts: PopReceipts, clock: ManualClock) -> None:
    message = popped()
    receipts.set_time("a", POP_TIME_MS)
    clock.advance(14_999)
    assert (receipts.find(message), receipts.is_expired(message)) == (FIRST, False)
    assert receipts.age_ms(message) == 14_999
    clock.advance(1)
    assert receipts.is_expired(message)
    with pytest.raises(ReceiptExpired, match=r"message ID0 .* 15000 ms passed 0 ms ago, so it is delivered"):
        receipts.find(message)


def test_the_wall_clock_does_not_matter(receipts: PopReceipts, clock: ManualClock) -> None:
    receipts.set_time("a", POP_TIME_MS)
    clock.set_wall(3_600_000)
    assert receipts.find(popped()) == FIRST


def test_without_the_brokers_time_no_handle_expires(receipts: PopReceipts, clock: ManualClock) -> None:
    receipts.set_time("b", POP_TIME_MS)
    clock.advance(1_000_000)
    assert (receipts.find(popped()), receipts.age_ms(popped())) == (FIRST, 0)


def test_a_changed_handle_is_the_present_one_until_its_message_is_acknowledged(
    receipts: PopReceipts, clock: ManualClock
) -> None:
    message, changed = popped(), FIRST._replace(pop_time_ms=POP_TIME_MS + 10_000)
    receipts.set_time("a", POP_TIME_MS)
    receipts.change(message, changed)
    clock.advance(20_000)
    assert receipts.find(message) == changed
    again = changed._replace(invisible_ms=60_000)
    receipts.change(message, again)
    clock.advance(10_000)
    assert receipts.find(message) == again
    receipts.forget(message)
    with pytest.raises(ReceiptExpired):
        receipts.find(message)


def test_changed_handles_are_dropped_when_both_have_expired(
    receipts: PopReceipts, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts_module, "CHANGED_MIN", 2)
    receipts = PopReceipts(clock)
    receipts.set_time("a", POP_TIME_MS)
    shortened = popped(FIRST._replace(offset=1))
    receipts.change(popped(), FIRST)
    receipts.change(shortened, FIRST._replace(offset=1, invisible_ms=0))
    clock.advance(10_000)
    receipts.change(popped(FIRST._replace(offset=2, invisible_ms=1)), FIRST._replace(invisible_ms=2))
    assert len(receipts._changed) == 2, "the third had expired"
    assert receipts.is_expired(shortened), "its first handle has not"


@pytest.mark.parametrize("value", [7, None, "0 1 2 3 4 a 5 6"])
def test_an_argument_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(IllegalType, match=r"^message .*give a StoredMessage that was received by a pop"):
        check(POPPED, message=value)


def test_a_message_that_was_not_popped_is_refused(receipts: PopReceipts) -> None:
    message = popped()
    check(POPPED, message=message)
    with pytest.raises(IllegalArgument, match="POP_CK"):
        check(POPPED, message=replace(message, properties={}))
    with pytest.raises(FormatError, match="'nonsense' is not a receipt handle"):
        receipts.find(popped("nonsense"))
