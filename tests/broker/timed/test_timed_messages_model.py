"""Timed messages held against a model: however the broker ends, each comes in time, or is recalled."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.conftest import Bench, serving
from tests.kit.timed_messages import delivered, pass_time

from cometmq.format.timer import wheel as timer_wheel
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import RecallHeader

ROOT = Path("/disk/store")
DELAY_S_MAX = 4
SLOTS = 3_600

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, DELAY_S_MAX)),
        st.tuples(st.just("recall"), st.integers(0, 24)),
        st.tuples(st.just("pass"), st.sampled_from([500, 2_000, 6_000])),
        st.tuples(st.just("save")),
        st.tuples(st.just("round")),
        st.tuples(st.sampled_from(["stop", "kill"])),
        st.tuples(st.just("be down"), st.sampled_from([500, 6_000])),
        st.tuples(st.just("lose power"), st.randoms(use_true_random=False)),
    ),
    max_size=25,
)


class Model:
    """What was sent and has come.

    Attributes:
        started_ms: when the broker was started for the last time: what was due then comes in its next second.
        due_ms: when each message may come, at the earliest.
        handles: with which each can be recalled.
        recalled: those that were.
        came: how often each has come so far.
        saved: the same as of the last save.
        more: how often each may come beside the first time, because of crashes.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.started_ms = 0
        self.due_ms: dict[bytes, int] = {}
        self.handles: dict[bytes, str] = {}
        self.recalled: set[bytes] = set()
        self.came: Counter[bytes] = Counter()
        self.saved: Counter[bytes] = Counter()
        self.more: Counter[bytes] = Counter()

    def check(self, came: Counter[bytes]) -> None:
        for body in came:
            assert self.due_ms[body] <= self.now_ms, "too early"
            assert came[body] <= 1 + self.more[body], "too often"
        due = {body: max(due_ms, self.started_ms) for body, due_ms in self.due_ms.items()}
        late = {body for body, due_ms in due.items() if due_ms + 2_000 <= self.now_ms}
        assert late - self.recalled <= came.keys(), "too late, or lost"
        assert not self.recalled & came.keys(), "recalled, and delivered"
        self.came = came

    def crashed(self) -> None:
        self.more.update((self.came - self.saved).keys())
        self.saved = self.came


async def act(bench: Bench, model: Model, action: tuple[Any, ...]) -> None:
    match action:
        case ("send", delay_s):
            body = b"m%d" % len(model.due_ms)
            model.due_ms[body] = model.now_ms + 1000 * delay_s - 1_000
            answer = await bench.send(
                "T", body, queue_id=2, UNIQ_KEY=body.decode(), TIMER_DELAY_SEC=str(delay_s)
            )
            model.handles[body] = answer.ext_fields["recallHandle"]
            await asyncio.wrap_future(bench.store.wait_flushed())
        case ("recall", number) if model.handles:
            body = b"m%d" % (number % len(model.handles))
            answer = await bench.ask(RequestCode.RECALL_MESSAGE, RecallHeader("T", model.handles[body]))
            if answer.code == ResponseCode.SUCCESS:
                assert body not in model.came
                model.recalled.add(body)
            await asyncio.wrap_future(bench.store.wait_flushed())
        case ("round",):
            await bench.parts.timed_messages.round()
            model.check(Counter(delivered(bench)))
        case ("pass", ms):
            await pass_time(bench, ms)
            model.now_ms += ms
            model.check(Counter(delivered(bench)))
        case ("save",):
            await bench.parts.timed_messages.save()
            model.saved = model.came


async def live(disk: MemoryDisk, model: Model, actions: list[tuple[Any, ...]]) -> MemoryDisk:
    """Serve until one of the actions ends the broker, or there are no more; give the disk that it leaves."""
    async with serving(ROOT, files=disk, recall_message_enable=True) as bench:
        bench.clock.advance(model.now_ms)
        model.started_ms = model.now_ms
        await bench.parts.timed_messages.load()
        while actions:
            match actions.pop(0):
                case ("stop",):
                    bench.parts.timed_messages.close()
                    model.saved = model.came
                    break
                case ("kill",):
                    model.crashed()
                    return disk.after_kill()
                case ("be down", ms):
                    model.crashed()
                    model.now_ms += ms
                    return disk.after_kill()
                case ("lose power", chance):
                    model.crashed()
                    return disk.after_power_loss(Random(chance.random()))
                case action:
                    await act(bench, model, action)
    return disk


@settings(deadline=None)
@given(ACTIONS)
def test_each_comes_in_time_and_once_if_nothing_crashes_and_it_is_not_recalled(
    actions: list[tuple[Any, ...]],
) -> None:
    async def main() -> None:
        disk, model = MemoryDisk(), Model()
        actions.append(("pass", 1_000 * DELAY_S_MAX + 3_000))
        while actions:
            disk = await live(disk, model, actions)

    with pytest.MonkeyPatch.context() as patched:  # a wheel of an hour: two weeks are slow here
        patched.setattr(timer_wheel, "SLOTS", SLOTS)
        patched.setattr(timer_wheel, "SIZE", SLOTS * timer_wheel.SLOT_SIZE)
        asyncio.run(main())
