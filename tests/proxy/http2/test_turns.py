"""Turns of the loop, and the shares of connections in them."""

import asyncio

from cometmq.proxy.http2.turns import SHARE_MIN, Turns

MOST = 64


class Sender:
    """A connection of which so many frames wait."""

    def __init__(self, turns: Turns, waiting: int) -> None:
        self.turns, self.waiting = turns, waiting
        self.shares: list[int] = []

    def take_turn(self, share: int) -> None:
        self.shares.append(share)
        self.waiting -= share
        if self.waiting > 0:
            self.turns.add(self)


async def next_turn() -> None:
    await asyncio.sleep(0)


async def test_who_sends_little_is_handled_at_once() -> None:
    turns = Turns(MOST)
    sender = Sender(turns, 0)
    assert turns.share_of(sender) == MOST
    turns.use(10)
    assert turns.share_of(Sender(turns, 0)) == MOST - 10
    await next_turn()
    assert turns.share_of(sender) == MOST and sender.shares == []


async def test_what_a_turn_has_used_up_waits_for_the_next_one() -> None:
    turns = Turns(MOST)
    turns.share_of(Sender(turns, 0))
    turns.use(MOST)
    late = Sender(turns, 1)
    assert turns.share_of(late) == 0 and turns.share_of(late) == 0
    await next_turn()
    assert late.shares == [MOST]


async def test_those_who_wait_have_equal_shares() -> None:
    turns = Turns(MOST)
    flooding, other = Sender(turns, 1_000), Sender(turns, 5)
    turns.add(flooding)
    assert turns.share_of(other) == 0
    await next_turn()
    assert flooding.shares == other.shares == [MOST // 2]
    await next_turn()
    assert flooding.shares == [MOST // 2, MOST] and other.shares == [MOST // 2]


async def test_a_share_is_a_call_at_least() -> None:
    turns = Turns(MOST)
    senders = [Sender(turns, 1) for _ in range(MOST)]
    for sender in senders:
        turns.add(sender)
    await next_turn()
    assert {share for sender in senders for share in sender.shares} == {SHARE_MIN}
