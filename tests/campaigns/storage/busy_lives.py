"""Lives of a store with all that a broker does beside its sends, and what kills and losses of power leave.

As in ``power_loss``, and besides: topics are deleted and made again, files expire, thorough rounds take many
ticks, what threads do (syncing, noting deletions, removing files) is done some steps later, the clock is
turned, files have odd lengths. Half of the ends are kills within an operation, which must take nothing but
what is in a pool.
"""

import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from tests.campaigns.storage.power_loss import (
    PLACES,
    ROOT,
    SMALL,
    STATES_OF_A_LIFE,
    Life,
    Mark,
    Outcome,
    Sent,
    check,
)
from tests.campaigns.storage.strategies import Strategy

from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore, NewMessage
from cometmq.store.reading import Run
from cometmq.store.settings import from_properties
from cometmq.store.upkeep.retention import Removal
from cometmq.testing.recorded_disk import RecordedDisk

STEPS: Final = 60
STEPS_AFTER: Final = 3
GOES_ON: Final = 0.4
"""The share of recoveries after which the store lives on for some steps."""
NOTHING: Final = Removal((), 0)
T = TypeVar("T")


class Deletion(NamedTuple):
    """A topic's deletion: of its records before ``offset``, begun and ended after so many operations."""

    topic: str
    offset: int
    begin: int
    end: int


class UnderWay(NamedTuple):
    """A deletion in steps, as a broker does it, that is not ended yet."""

    deletion: Deletion
    run: Run[None]


class SlowClock(ManualClock):
    """A clock that goes on by itself while it is looked at, so that a tick ends before all is done."""

    step_ms = 0

    def monotonic_ms(self) -> int:
        """Return the monotonic clock, ms."""
        self._monotonic_ms += self.step_ms
        return self._monotonic_ms


class Luck(Random):
    """All that was done has come to the disk: so a kill leaves it."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:  # noqa: ARG002 - as Random has it
        """Return what chooses all of the operations."""
        return 1

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]  # of any sequence
        """Return what tears none of them."""
        return seq[0]


class BusyLife(Life):
    """A life, with deletions of topics in it.

    Args:
        odd: settings that are not the usual ones.
        deletions: what was deleted before.
        unsure: deletions that were cut: nobody knows whether they came to their end.
    """

    def __init__(
        self,
        strategy: Strategy,
        disk: RecordedDisk,
        before: Mark,
        chance: Random,
        now_ms: int,
        number: int,
        odd: dict[str, object],
        deletions: Iterable[Deletion] = (),
        unsure: Iterable[Deletion] = (),
    ) -> None:
        self.odd = odd
        self.deletions, self.unsure = list(deletions), list(unsure)
        self.removals: Iterator[Removal] | None = None
        self.removal = NOTHING
        self.syncing: tuple[list[Path], int] | None = None
        self.deleting: UnderWay | None = None
        super().__init__(strategy, disk, before, chance, now_ms, number)

    def known_after(self, moment: int) -> tuple[Any, ...]:
        """Return the settings, and the deletions that are over after so many operations, or are not."""
        ended = [one._replace(begin=0, end=0) for one in self.deletions if one.end <= moment]
        unsure = [one._replace(begin=0) for one in self.deletions if one.begin <= moment < one.end]
        return self.odd, ended, unsure

    def live(self, steps: int) -> None:
        """Run some steps, and stop."""
        choices = [self.append] * 8 + [self.flush, self.restart, self.kill, self.delete, self.turn_clock]
        choices += [self.go_on_deleting] * 3 + [self.remove_deleted]
        choices += [self.begin_round] + [self.tick] * 4 + [self.finish_sync] * 2
        choices += [self.begin_retention] + [self.retain] * 4 + [self.remove] * 2
        if self.strategy.has_pool:
            choices += [self.commit] * 2
        for _ in range(steps):
            self.chance.choice(choices)()
        self.finish_tasks()
        self.store.close()

    def begin_round(self) -> None:
        self.clock.advance(self.settings.flush_consume_queue_thorough_interval)
        self.tick()

    def tick(self) -> None:
        assert isinstance(self.clock, SlowClock)
        self.clock.advance(self.chance.choice((0, 1_000)))
        self.clock.step_ms = self.chance.choice((0, 3))
        paths = self.store.tick(begins_round=self.syncing is None)
        self.clock.step_ms = 0
        if paths:
            self.syncing = paths, self.store.dispatched_time

    def finish_sync(self) -> None:
        if self.syncing is not None:
            self.store.sync_files(self.syncing[0])
            self.store.vouch(self.syncing[1])
            self.syncing = None

    def begin_retention(self) -> None:
        if self.removals is None:
            self.store.retention.ask()
            self.removals = self.store.retention.round()

    def retain(self) -> None:
        if self.removals is not None:
            self.remove()
            self.removal = next(self.removals, NOTHING)
            if self.removal is NOTHING:
                self.removals = None

    def remove(self) -> None:
        self.store.retention.remove(self.removal.paths)
        self.removal = NOTHING

    def new_message(self) -> NewMessage:
        """Build a message of a topic that is not being deleted."""
        message = super().new_message()
        while self.deleting is not None and message.topic == self.deleting.deletion.topic:
            message = super().new_message()
        return message

    def delete(self) -> None:
        """Delete a topic at once."""
        self.finish_deletion()
        self.begin_deletion()
        self.finish_deletion()
        self.remove_deleted()

    def begin_deletion(self) -> None:
        topic, _ = self.chance.choice(PLACES)
        deletion = Deletion(topic, self.store.written_offset, len(self.disk.operations), sys.maxsize)
        run = Run(self.store.deletions.topics([topic]))
        assert not run.go_on(), "it is noted in a thread"
        self.deleting = UnderWay(deletion, run)

    def go_on_deleting(self) -> None:
        """Run the next step of a deletion, or begin one."""
        if self.deleting is None:
            self.begin_deletion()
        elif self.deleting.run.go_on(self.deleting.run.step.fetch()):
            self.deletions.append(self.deleting.deletion._replace(end=len(self.disk.operations)))
            self.deleting = None
            self.mark()

    def finish_deletion(self) -> None:
        while self.deleting is not None:
            self.go_on_deleting()

    def remove_deleted(self) -> None:
        self.store.deletions.remove_files()

    def turn_clock(self) -> None:
        self.clock.set_wall(self.clock.now_ms() + self.chance.choice((-100_000, -5_000, -10, 5_000)))

    def finish_tasks(self) -> None:
        """Finish what threads have begun, as a broker that stops."""
        self.finish_sync()
        self.finish_deletion()
        self.remove()
        self.removals = None

    def restart(self) -> None:
        self.finish_tasks()
        super().restart()

    def kill(self) -> None:
        if self.deleting is not None:
            self.unsure.append(self.deleting.deletion)
        self.removals, self.removal, self.syncing, self.deleting = None, NOTHING, None, None
        super().kill()

    def open(self, safe_offset: int) -> None:
        if not isinstance(self.clock, SlowClock):
            self.clock = SlowClock(self.clock.now_ms())
        self.disk.now_ms = self.clock.now_ms
        self.settings = from_properties(SMALL | self.strategy.settings | self.odd)
        run_soon = self.asked.append if self.strategy.has_pool else None
        self.store = MessageStore.open(
            ROOT, self.settings, files=self.disk, clock=self.clock, run_soon=run_soon
        )
        begin = self.store.min_offset
        self.sent = check(self.store, self.sent, safe_offset, begin=begin, alive_from=self._alive_from)
        self.unsure = []
        self.mark()

    def _alive_from(self, topic: str, kept: list[Sent]) -> int:
        """Return where a topic's messages begin; note a deletion that has come to its end."""
        end = self.store.written_offset
        self.deletions = [one._replace(offset=min(one.offset, end)) for one in self.deletions]
        known = max((one.offset for one in self.deletions if one.topic == topic), default=0)
        unsure = {min(one.offset, end): one.begin for one in self.unsure if one.topic == topic}
        actual = self.store.deleted_before(topic)
        if known <= self.store.min_offset and not actual:
            # It is forgotten, as it has expired. So may one be that was under way: its queues are new then.
            expired = [offset for offset in unsure if offset <= self.store.min_offset]
            actual = next((one for one in expired if self._queues_begin_at(topic, kept, one)), known)
        assert actual in {known, *unsure}
        if actual != known:
            self.deletions.append(Deletion(topic, actual, unsure[actual], len(self.disk.operations)))
        return actual

    def _queues_begin_at(self, topic: str, kept: list[Sent], offset: int) -> bool:
        """Check whether a topic's queues have what was sent from an offset on, and nothing else."""
        ends = Counter(
            one.message.queue_id
            for one in kept
            if one.message.topic == topic and one.at.physical_offset >= offset
        )
        queues = (queue_id for name, queue_id in PLACES if name == topic)
        return all(self.store.max_queue_offset(topic, queue_id) == ends[queue_id] for queue_id in queues)


def odd_settings(chance: Random) -> dict[str, object]:
    """Choose lengths of files, and whether queues are extended."""
    return {
        "fileReservedTime": 0,
        "deleteFileBatchMax": chance.choice((1, 2, 10)),
        "mappedFileSizeCommitLog": chance.choice((4_097, 5_003, 8_192, 20_000)),
        "mappedFileSizeConsumeQueue": chance.choice((20, 60, 260)),
        "maxHashSlotNum": chance.choice((1, 3, 2_000)),
        "maxIndexNum": chance.choice((3, 40, 300)),
        "enableConsumeQueueExt": chance.choice(("true", "false")),
        "mappedFileSizeConsumeQueueExt": chance.choice((256, 500, 4_096)),
    }


def campaign(strategy: Strategy, seed: int) -> Iterator[Outcome]:
    """Recover states of life after life, whose seeds follow ``seed``; without end."""
    for number in itertools.count(seed):
        try:
            yield from _recover_a_life(strategy, Random(number))
        except Exception as error:  # whatever it is, it must say how to see it again
            raise AssertionError(f"{strategy.name}: seed {number}") from error


def _recover_a_life(strategy: Strategy, chance: Random) -> Iterator[Outcome]:
    odd, before = odd_settings(chance), Mark(0, [], 0, 0)
    life = BusyLife(strategy, RecordedDisk(), before, chance, 1_700_000_000_000, 0, odd)
    life.live(STEPS)
    moments = sorted(chance.randint(0, len(life.disk.operations)) for _ in range(STATES_OF_A_LIFE))
    powerless, killed = life.disk.states(moments, chance), life.disk.states(moments, Luck())
    for moment, *disks in zip(moments, powerless, killed, strict=True):
        is_kill = chance.random() < 1 / 2
        disk = disks[is_kill]
        if is_kill:
            disk._life = life.disk._life
        later, outcome = life.after(moment, disk)
        assert not (is_kill and outcome.lost) or strategy.has_pool
        later.live(STEPS_AFTER if chance.random() < GOES_ON else 0)
        yield outcome
