"""What is held of the answers that clients have not read."""

import asyncio

import pytest
from grpclib.exceptions import StreamTerminatedError
from tests.proxy.http2.conftest import Clock

from cometmq.proxy.http2.unsent import ASKED_BYTES, STALLED_S, AnswersHeld, Recipient, Unsent

EACH, TOTAL = 100, 400


class Peers:
    """Connections, and those of them that were closed."""

    def __init__(self, each: int = EACH, total: int = TOTAL) -> None:
        self.clock = Clock()
        self.unsent = Unsent(each, total, self.clock)
        self.closed: list[Recipient] = []

    def recipient(self) -> Recipient:
        def close(_: str) -> None:
            self.closed.append(made)
            made.end()

        made = Recipient(self.unsent, close)
        return made


def test_messages_get_half_of_the_room() -> None:
    peers = Peers()
    one, other = peers.recipient(), peers.recipient()
    first = one.try_hold(150)
    assert first is not None and not one.has_room and other.has_room
    assert other.try_hold(51) is None and peers.closed == []
    other.hold(250)
    one.release(first)
    assert (one.bytes, other.bytes, peers.unsent.bytes) == (0, 250, 250)


def test_who_keeps_an_answer_waiting_is_closed_when_others_need_the_room() -> None:
    peers = Peers()
    slow, fast = peers.recipient(), peers.recipient()
    slow.try_hold(150)
    peers.clock.now = STALLED_S / 2
    assert fast.try_hold(100) is None and peers.closed == []
    peers.clock.now = STALLED_S
    assert fast.try_hold(100) is not None
    assert peers.closed == [slow] and peers.unsent.bytes == 100


def test_for_an_answer_that_is_made_the_one_that_holds_most_is_closed() -> None:
    peers = Peers()
    large, small = peers.recipient(), peers.recipient()
    large.hold(300)
    small.hold(50)
    small.hold(100)
    assert peers.closed == [large] and peers.unsent.bytes == 150
    with pytest.raises(StreamTerminatedError):
        small.hold(300)
    assert peers.closed == [large, small] and peers.unsent.bytes == 0


def test_messages_that_are_larger_than_the_room_are_given_if_nothing_else_waits() -> None:
    peers = Peers()
    assert peers.recipient().try_hold(10 * TOTAL) is not None


def test_what_has_no_bytes_is_held_and_released_as_well() -> None:
    peers = Peers()
    recipient = peers.recipient()
    empty = [recipient.try_hold(0), recipient.try_hold(0)]
    for held in empty:
        assert held is not None
        recipient.release(held)
    assert recipient.held == set() and peers.unsent.bytes == 0
    recipient.try_hold(0)
    recipient.end()
    assert recipient.held == set()


async def test_of_a_call_that_is_cancelled_nothing_waits_for_room() -> None:
    peers = Peers()
    recipient = peers.recipient()
    held = recipient.hold(EACH)
    waiting = asyncio.create_task(recipient.wait_for_room(60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert recipient._waiting == []
    recipient.release(held)


async def test_a_connection_waits_until_it_has_read_enough() -> None:
    peers = Peers()
    recipient = peers.recipient()
    held = recipient.hold(EACH)
    waiting = asyncio.create_task(recipient.wait_for_room(60))
    await asyncio.sleep(0)
    assert not waiting.done()
    recipient.release(held)
    assert await waiting
    recipient.hold(EACH)
    assert not await recipient.wait_for_room(0)


async def test_what_a_call_holds_is_held_until_it_ends() -> None:
    peers = Peers(each=1_000, total=1_000)
    recipient = peers.recipient()
    answers = AnswersHeld(recipient)
    assert answers.hold(300) and not answers.hold(300)
    answers.hold_inflated(200)
    answers.hold_inflated(100)
    assert recipient.bytes == 400
    answers.release()
    assert recipient.bytes == peers.unsent.bytes == 0 and answers.has_room


async def test_of_many_calls_a_few_ask_the_broker_at_a_time() -> None:
    peers = Peers(each=2 * ASKED_BYTES, total=100 * ASKED_BYTES)
    recipient = peers.recipient()
    first, second, third, fourth = (AnswersHeld(recipient) for _ in range(4))
    assert await first.ask(0) and await second.ask(0) and not await third.ask(0)
    first.release()
    assert await third.ask(0)
    waiting = asyncio.create_task(fourth.ask(60))
    await asyncio.sleep(0)
    assert second.hold(1) and await waiting
    assert peers.recipient().has_room


async def test_a_call_whose_messages_the_broker_waits_for_keeps_no_other_from_asking() -> None:
    recipient = Peers(each=ASKED_BYTES, total=100 * ASKED_BYTES).recipient()
    waiting, other = AnswersHeld(recipient), AnswersHeld(recipient)
    assert await waiting.ask(0) and not await other.ask(0)
    assert await other.ask(60)
    waiting.release()
    assert not recipient.has_room
    other.release()
    assert recipient.has_room


async def test_without_a_connection_nothing_is_limited() -> None:
    answers = AnswersHeld()
    assert answers.hold(1 << 40) and answers.has_room and await answers.wait_for_room(0)
    assert await answers.ask(0)
    answers.hold_inflated(1 << 40)
    answers.release()
