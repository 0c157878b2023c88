"""Pop against dictionaries of times: nothing early, nothing lost, nothing twice, whenever the broker ends.

A few seconds by default. ``pytest tests/model --hypothesis-profile long --timeout 0`` makes thousands.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.conftest import Bench
from tests.model import pops

from cometmq.format.timer import wheel as timer_wheel
from cometmq.testing.memory_disk import MemoryDisk

LATE_MS = 3_000
"""How much later than its time, or than the start of its broker, a message must be there: the timer works in
seconds, rounds in steps."""
LAST_MS = 40_000
INVISIBLE_MS = st.sampled_from([1_000, 3_500, 10_000, 25_000])
SLOTS = 3_600

ACTIONS = st.lists(
    st.one_of(
        st.just(("nothing",)),
        st.tuples(st.just("send"), st.integers(0, pops.QUEUES - 1), st.integers(1, 3)),
        st.tuples(st.just("pop"), st.integers(-1, pops.QUEUES - 1), st.integers(1, 4), INVISIBLE_MS),
        st.tuples(st.just("pop all"), INVISIBLE_MS),
        st.tuples(st.just("ack"), st.integers(0, 60)),
        st.tuples(st.just("change"), st.integers(0, 60), INVISIBLE_MS),
        st.tuples(st.just("pass"), st.sampled_from([500, 2_000, 6_000, 15_000])),
        st.just(("save timer",)),
        st.just(("save offsets",)),
        st.tuples(st.sampled_from(["stop", "kill"])),
        st.tuples(st.just("die"), st.sampled_from([1_000, 5_000]), st.integers(0, 8)),
    ),
    min_size=pops.STEPS,
    max_size=pops.STEPS,
)


class Model:
    """What a client knows of each message, by its body.

    Attributes:
        passed_ms: how much time has passed.
        began_ms: when the broker began, by its clock, as is ``saved_ms``, when it saved last.
        sent: all that was sent.
        held: what came and is not acknowledged, by its latest handle.
        acknowledged: what is.
        came: how often each came.
        loose: what may come again at any time, since it was acknowledged or changed after its time.
    """

    def __init__(self) -> None:
        self.passed_ms = self.began_ms = self.saved_ms = 0
        self.sent: list[bytes] = []
        self.held: dict[bytes, pops.Got] = {}
        self.acknowledged: set[bytes] = set()
        self.came: dict[bytes, int] = {}
        self.loose: set[bytes] = set()

    def take(self, found: list[pops.Got], clock_ms: int) -> None:
        """Check what came, and note it."""
        strict = [got.body for got in found if got.body not in self.loose]
        assert len(set(strict)) == len(strict), "twice at once"
        for got in found:
            body = got.body
            assert body in self.sent
            if body not in self.loose:
                assert body not in self.acknowledged, "acknowledged, and came again"
                assert body not in self.held or self.held[body].due_ms <= clock_ms, "too early"
                assert got.tries == self.came.get(body, 0), "its tries are counted wrongly"
            self.came[body] = self.came.get(body, 0) + 1
            self.held[body] = got

    def must_come(self, clock_ms: int) -> set[bytes]:
        """Return what a pop of all must find."""
        new = {body for body in self.sent if body not in self.came}
        late_ms = clock_ms - LATE_MS
        if self.began_ms > late_ms:
            return new
        return new | {body for body, got in self.held.items() if got.due_ms <= late_ms}

    def ack(self, body: bytes) -> None:
        self.acknowledged.add(body)
        del self.held[body]


async def act(bench: Bench, model: Model, action: tuple[Any, ...]) -> None:
    group, clock_ms = pops.Group(bench, "g"), bench.clock.now_ms()
    match action:
        case ("send", queue_id, count):
            for _ in range(count):
                body = b"m%d" % len(model.sent)
                await bench.send(pops.TOPIC, body, queue_id=queue_id, UNIQ_KEY=body.decode())
                model.sent.append(body)
        case ("pop", queue_id, count, invisible_ms) if model.sent:
            found = await group.pop(invisible_ms, count, queue_id)
            assert len(found) <= count
            model.take(found, clock_ms)
        case ("pop all", invisible_ms) if model.sent:
            await pop_all(group, model, invisible_ms, clock_ms)
        case ("ack", number) if model.held:
            body = list(model.held)[number % len(model.held)]
            in_time = model.held[body].due_ms > clock_ms
            assert await group.ack(model.held[body]) in (
                (pops.FOUND,) if in_time else (pops.FOUND, pops.NO_MESSAGE)
            )
            if in_time:
                model.ack(body)
            else:
                model.loose.add(body)  # it may be on its way to come again
        case ("change", number, invisible_ms) if model.held:
            body = list(model.held)[number % len(model.held)]
            in_time = model.held[body].due_ms > clock_ms
            model.held[body] = await group.change(model.held[body], invisible_ms)
            if not in_time:
                model.loose.add(body)
        case ("pass", ms):
            await pops.pass_time(bench, ms)
            model.passed_ms += ms
        case ("save timer",):
            await pops.save_timer(bench)
        case ("save offsets",):
            bench.parts.offsets.save()
            model.saved_ms = clock_ms


async def pop_all(group: pops.Group, model: Model, invisible_ms: int, clock_ms: int) -> None:
    """Pop until nothing comes; all that is new or due must."""
    missing = model.must_come(clock_ms) - model.loose
    while found := await group.pop(invisible_ms, pops.COUNT_MAX):
        model.take(found, clock_ms)
        missing -= {got.body for got in found}
    assert not missing, "too late, or lost"


async def live(disk: MemoryDisk, model: Model, actions: list[tuple[Any, ...]]) -> MemoryDisk:
    """Serve until one of the actions ends the broker, or there are no more; return its disk."""
    async with pops.broker(disk, model.passed_ms, model.saved_ms) as bench:
        model.began_ms = bench.clock.now_ms()
        while actions:
            match actions.pop(0):
                case ("stop",):
                    bench.parts.timed_messages.close()
                    model.saved_ms = bench.clock.now_ms()
                    return disk
                case ("kill",):
                    return disk.after_kill()
                case ("die", ms, stored):
                    model.passed_ms += ms
                    return await pops.die(bench, disk, ms, stored)
                case action:
                    await act(bench, model, action)
        for action in (("pass", LAST_MS), ("pop all", LAST_MS)):
            await act(bench, model, action)
        assert model.came.keys() == set(model.sent), "lost"
    return disk


@pops.limits()
@given(ACTIONS)
async def test_each_comes_again_at_its_time_until_it_is_acknowledged(actions: list[tuple[Any, ...]]) -> None:
    disk, model, left = MemoryDisk(), Model(), [*actions, ("nothing",)]
    with pytest.MonkeyPatch.context() as patched:  # a wheel of an hour: two weeks are slow here
        patched.setattr(timer_wheel, "SLOTS", SLOTS)
        patched.setattr(timer_wheel, "SIZE", SLOTS * timer_wheel.SLOT_SIZE)
        while left:
            disk = await live(disk, model, left)
