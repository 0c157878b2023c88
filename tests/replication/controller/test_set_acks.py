"""The acknowledgements of a master's slaves under a controller."""

import asyncio

from tests.replication.controller.parts import OverseerOfTest

from cometmq.replication.acks import NOTHING
from cometmq.replication.controller.in_sync_set import SLOW_MS, InSyncSet
from cometmq.replication.controller.set_acks import SetAcks
from cometmq.replication.epochs import EpochEntry

ALONE, BOTH = frozenset({1}), frozenset({1, 2})
END = 100


class Desk:
    """The acknowledgements of a master whose log ends at END, and when they changed."""

    def __init__(self, awaited: int | None = None, members: frozenset[int] = ALONE) -> None:
        self.now_ms = 0
        self.overseer = OverseerOfTest()
        in_sync = InSyncSet(1, EpochEntry(1, 0), members, 1, all_ack=awaited is None)
        self.acks = SetAcks(in_sync, awaited, lambda: END, lambda: self.now_ms, self.overseer.propose)
        self.changes = 0
        self.acks.on_change.append(self.count)

    def count(self) -> None:
        self.changes += 1

    async def settled(self) -> None:
        """Wait until the controller has answered."""
        while self.acks._asking:
            await asyncio.gather(*self.acks._asking)


async def test_a_slave_that_has_all_is_taken_into_the_set_and_awaited_from_then_on() -> None:
    desk = Desk()
    assert desk.acks.confirm_offset == desk.acks.replicated_offset == END
    follower = desk.acks.connect(2, is_learner=False)
    assert desk.acks.by_slave == {2: NOTHING} and not desk.acks.is_in_sync(follower)
    desk.acks.acked(follower, END)
    assert desk.overseer.said == [] and desk.changes == 1
    await desk.settled()
    assert desk.overseer.said == [[1, 2]] and desk.changes == 2
    assert desk.acks.is_in_sync(follower) and desk.acks.in_sync_count == 1
    assert desk.acks.by_slave == {2: END}


async def test_a_slave_that_is_gone_is_taken_out_and_awaited_until_then() -> None:
    desk = Desk(members=BOTH)
    follower = desk.acks.connect(2, is_learner=False)
    desk.acks.acked(follower, 40)
    assert desk.acks.replicated_offset == 40
    desk.acks.disconnect(follower)
    assert desk.acks.replicated_offset == 40, "the controller may still elect it"
    await desk.settled()
    assert desk.overseer.said == [[1]] and desk.acks.replicated_offset == END


async def test_a_slow_slave_is_taken_out_by_time() -> None:
    desk = Desk(members=BOTH)
    follower = desk.acks.connect(2, is_learner=False)
    desk.acks.sent(follower)
    desk.acks.acked(follower, 40)
    desk.now_ms = SLOW_MS + 1
    desk.acks.check()
    await desk.settled()
    assert desk.overseer.said == [[1]]


async def test_without_all_in_sync_enough_slaves_are_awaited() -> None:
    desk = Desk(awaited=1)
    assert desk.acks.replicated_offset == NOTHING and desk.acks.confirm_offset == END
    for slave, offset in ((2, 30), (3, 70)):
        desk.acks.acked(desk.acks.connect(slave, is_learner=True), offset)
    assert desk.acks.replicated_offset == 70 and desk.acks.in_sync_count == 0
    assert Desk(awaited=0).acks.replicated_offset == END


async def test_what_the_controller_says_replaces_the_set_and_an_epoch_keeps_the_slaves() -> None:
    desk = Desk()
    desk.acks.settle(BOTH, 2)
    assert desk.acks.in_sync_count == 1 and desk.changes == 1
    desk.acks.acked(desk.acks.connect(2, is_learner=False), 40)
    desk.acks.begin(desk.acks.in_sync.next_epoch(EpochEntry(2, END), ALONE, 3))
    assert desk.acks.by_slave == {2: 40} and desk.acks.in_sync.entry == EpochEntry(2, END)
    assert desk.acks.confirm_offset == END


async def test_a_master_that_stops_proposes_nothing_and_waits_for_no_answer() -> None:
    desk = Desk()
    follower = desk.acks.connect(2, is_learner=False)
    desk.acks.acked(follower, END)
    await desk.acks.close()
    assert not desk.acks._asking
    desk.acks.disconnect(follower)
    desk.acks.check()
    assert not desk.acks._asking
