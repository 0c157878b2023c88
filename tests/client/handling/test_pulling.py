"""The pulls of one queue, by scripted results: where they begin, their limits, and illegal offsets."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.client.members import settled
from tests.pulled import QUEUE, stored

from cometmq.client.handling import pulling
from cometmq.client.handling.pulling import Pulling, PullOptions, PullSource, check_options
from cometmq.client.handling.start import Start
from cometmq.client.requests.offset_store import OffsetStore
from cometmq.client.requests.queue_requests import Pulled, PullStatus, QueuePull, QueueRequests
from cometmq.cluster.process_queue import Limits
from cometmq.errors import IllegalArgument, IllegalType, NetworkError
from cometmq.message import MessageQueue, StoredMessage


class ScriptedPulls:
    """A queue of ten messages at offsets 0 to 9, pulled one by one; at its end a pull is held.

    Attributes:
        pulls: what each pull wanted.
        failures: how many requests fail first.
    """

    def __init__(self, *, end: int = 10, failures: int = 0) -> None:
        self.pulls: list[QueuePull] = []
        self.end = end
        self.failures = failures
        self.committed: int | None = None
        self.topic = QUEUE.topic

    async def pull_stored(self, wanted: QueuePull) -> Pulled:
        self._fail()
        assert wanted.queue == QUEUE
        self.pulls.append(wanted)
        queue_offset = wanted.queue_offset
        if queue_offset > self.end:
            return Pulled(PullStatus.OFFSET_ILLEGAL, [], self.end, 0, self.end)
        if queue_offset == self.end:
            await asyncio.Event().wait()
        message = stored(queue_offset, self.topic)
        return Pulled(PullStatus.FOUND, [message], queue_offset + 1, 0, self.end)

    async def min_offset(self, _: MessageQueue) -> int:
        return 0

    async def read(self, _: MessageQueue) -> int | None:
        self._fail()
        return self.committed

    async def write(self, _: Mapping[MessageQueue, int]) -> None:
        raise AssertionError("pulling commits nothing")

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise NetworkError("no connection")


class Arrivals:
    """The messages that have arrived, and a wait for them."""

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self._came = asyncio.Event()

    def __call__(self, _: Pulling, messages: list[StoredMessage]) -> None:
        self.messages += messages
        self._came.set()

    async def have(self, count: int) -> list[int]:
        """Wait for so many messages; return the offsets of all."""
        async with asyncio.timeout(60):
            while len(self.messages) < count:
                self._came.clear()
                await self._came.wait()
        return [message.queue_offset for message in self.messages]


def pulling_of(
    pulls: ScriptedPulls, arrived: Arrivals, limits: Limits | None = None, **options: Any
) -> Pulling:
    requests, offsets = cast(QueueRequests, pulls), cast(OffsetStore, pulls)
    source = PullSource(requests, offsets, Start.FIRST, PullOptions(limits or Limits(), 7, 500))
    return Pulling(QUEUE, source, arrived, **options)


async def test_it_begins_at_the_committed_offset_or_where_the_group_starts() -> None:
    for committed, first in ((None, 0), (4, 4)):
        pulls, arrived = ScriptedPulls(), Arrivals()
        pulls.committed = committed
        one = pulling_of(pulls, arrived)
        assert one.to_commit is None
        one.begin()
        assert await arrived.have(10 - first) == list(range(first, 10))
        assert one.to_commit == (0 if committed is None else None)
        await one.stop()


async def test_each_pull_has_the_options_and_the_filter() -> None:
    pulls, arrived = ScriptedPulls(), Arrivals()
    one = pulling_of(pulls, arrived, tags="paid", sql="a = 1")
    one.begin()
    await arrived.have(1)
    await one.stop()
    assert pulls.pulls[0] == QueuePull(QUEUE, 0, "paid", "a = 1", max_count=7, wait_ms=500)


async def test_it_pauses_at_the_limit_and_continues_when_messages_are_done() -> None:
    empty: list[int] = []
    pulls, arrived = ScriptedPulls(), Arrivals()
    one = pulling_of(pulls, arrived, Limits(messages=1), on_empty=lambda: empty.append(len(arrived.messages)))
    one.begin()
    assert await arrived.have(2) == [0, 1]
    await asyncio.sleep(0)
    assert len(pulls.pulls) == 2
    one.done(arrived.messages[:1])
    assert await arrived.have(3) == [0, 1, 2]
    assert (one.to_commit, empty) == (1, [])
    one.done(arrived.messages[1:])
    assert (one.to_commit, empty) == (3, [3])
    await one.stop()


async def test_a_pull_that_ends_by_a_fault_of_ours_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Defective(ScriptedPulls):
        async def pull_stored(self, _: QueuePull) -> Pulled:
            raise ZeroDivisionError

    one = pulling_of(Defective(), Arrivals())
    one.begin()
    for _ in range(5):
        await asyncio.sleep(0)
    await one.stop()
    (logged,) = caplog.records
    assert logged.getMessage() == f"the pull of {QUEUE} has failed and stands still from now on"


async def test_the_span_of_offsets_limits_only_queues_without_an_order() -> None:
    for ordered, count in ((False, 3), (True, 10)):
        pulls, arrived = ScriptedPulls(), Arrivals()
        one = pulling_of(pulls, arrived, Limits(span=1), ordered=ordered)
        one.begin()
        await arrived.have(count)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(arrived.messages) == count
        await one.stop()


async def test_failed_requests_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pulling, "AFTER_FAILURE_S", 0.0)
    pulls, arrived = ScriptedPulls(failures=2), Arrivals()
    one = pulling_of(pulls, arrived)
    one.begin()
    await arrived.have(1)
    pulls.failures = 1
    one.restart(5)
    await arrived.have(11)
    await one.stop()
    assert caplog.text.count("the first offset is not known yet: no connection") == 2
    assert caplog.text.count("a pull at 5 failed: no connection") == 1


async def test_an_illegal_offset_is_replaced_by_the_brokers(caplog: pytest.LogCaptureFixture) -> None:
    pulls, arrived = ScriptedPulls(end=3), Arrivals()
    pulls.committed = 50
    one = pulling_of(pulls, arrived)
    one.begin()
    await settled(lambda: [one.queue_offset for one in pulls.pulls] == [50, 3])
    assert one.to_commit == 3, "the stored offset is not known any more"
    assert "at 50: there is nothing, only from 0 to 3: goes on at 3" in caplog.text
    await one.stop()


async def test_what_waits_is_still_handled_when_the_broker_has_deleted_what_follows() -> None:
    pulls, arrived = ScriptedPulls(), Arrivals()
    one = pulling_of(pulls, arrived)
    one.begin()
    await arrived.have(10)
    assert one.waiting is not None
    one._add(one.waiting, Pulled(PullStatus.OFFSET_ILLEGAL, [], 20, 20, 30))
    assert all(map(one.is_waiting, arrived.messages))
    assert (one.waiting.cursor, one.to_commit) == (20, 0)
    one.done(arrived.messages)
    assert one.to_commit == 20
    await one.stop()


async def test_a_restart_drops_what_waits_and_the_pull_that_is_held() -> None:
    pulls, arrived = ScriptedPulls(), Arrivals()
    one = pulling_of(pulls, arrived)
    one.begin()
    await arrived.have(10)
    one.restart(8)
    assert (await arrived.have(12))[10:] == [8, 9]
    assert one.to_commit == 8
    one.done(arrived.messages[:1])  # it was dropped
    assert one.to_commit == 8
    await one.stop()


async def test_after_a_stop_nothing_is_done_and_nothing_restarts() -> None:
    pulls, arrived = ScriptedPulls(), Arrivals()
    one = pulling_of(pulls, arrived)
    one.begin()
    await arrived.have(10)
    await one.stop()
    one.done(arrived.messages)
    one.restart(9)
    assert (one.to_commit, one.stopped, len(pulls.pulls)) == (0, True, 11)


async def test_a_retried_message_has_the_topic_that_it_was_sent_to_first() -> None:
    pulls, arrived = ScriptedPulls(), Arrivals()
    pulls.topic = "%RETRY%readers"
    one = pulling_of(pulls, arrived)
    one.begin()
    await arrived.have(1)
    await one.stop()
    assert arrived.messages[0].topic == "%RETRY%readers", "without the property it stays as it is"
    retried = replace(stored(0, "%RETRY%readers"), properties={"RETRY_TOPIC": "Orders"})
    assert pulling._with_origin_topic(retried).topic == "Orders"


def test_options_are_checked() -> None:
    assert check_options(PullOptions()) == PullOptions()
    with pytest.raises(IllegalArgument, match="max_count 0"):
        check_options(PullOptions(max_count=0))
    with pytest.raises(IllegalArgument, match="span 0"):
        check_options(PullOptions(Limits(span=0)))
    with pytest.raises(IllegalType, match="pull"):
        check_options(cast(PullOptions, 5))


async def test_a_failure_that_repeats_is_logged_once_until_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pulling, "AFTER_FAILURE_S", 0.0)
    pulls, arrived = ScriptedPulls(), Arrivals()
    one = pulling_of(pulls, arrived)
    one.begin()
    await arrived.have(1)
    pulls.failures = 5
    one.restart(5)
    await arrived.have(11)
    assert caplog.text.count("a pull at 5 failed: no connection") == 1
    pulls.failures = 1
    one.restart(5)
    await arrived.have(len(arrived.messages) + 1)
    await one.stop()
    assert caplog.text.count("a pull at 5 failed: no connection") == 2
