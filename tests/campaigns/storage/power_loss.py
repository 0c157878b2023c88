"""Losses of power that are made up: a store's life is recorded, and recovered from states it could leave.

A life is a random mixture of appends, syncs, upkeep, restarts and kills, the same for the same seed.
At random moments of it, most often in the middle of an operation, the power fails. What recovery makes of the
disk must hold all that was promised, nothing that was not sent, and take messages as if nothing had been.
That is a life, too, which begins with a recovery; in some of these the power fails again.
"""

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Self

from tests.campaigns.storage.strategies import Strategy

from cometmq.format import properties
from cometmq.format.host import pack_host
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore, NewMessage
from cometmq.store.append import Appended
from cometmq.store.settings import from_properties
from cometmq.testing.recorded_disk import RecordedDisk

ROOT: Final = Path("/store")
HOST: Final = pack_host("127.0.0.1", 10911)
PLACES: Final = [(topic, queue_id) for topic in ("A", "B") for queue_id in range(2)]
KEYS: Final = ("k1", "k2", "k3")
SIZES: Final = (0, 20, 300, 500, 1_200, 3_000)
SMALL: Final = {
    "mappedFileSizeCommitLog": 8_192,
    "mappedFileSizeConsumeQueue": 60,
    "maxHashSlotNum": 3,
    "maxIndexNum": 40,
    "flushIntervalCommitLog": 10**9,
    "commitIntervalCommitLog": 10**9,
    "wakeCommitWhenPutMessage": False,
}
"""Files so small that each of them is rolled; nothing is flushed or committed but by a life's steps."""
STEPS: Final = 30
STATES_OF_A_LIFE: Final = 50
FAILS_AGAIN: Final = 0.3
"""The share of recoveries that a second loss of power follows, or cuts."""


Read = tuple[str, int, bytes, bytes, Appended]
"""What was read of a message: topic, queue id, body, properties, and where it is."""


class Sent(NamedTuple):
    """A message, and where the store put it."""

    message: NewMessage
    at: Appended

    @property
    def end(self) -> int:
        return self.at.physical_offset + self.at.size


class Mark(NamedTuple):
    """What a store had promised after so many operations on its disk.

    Attributes:
        sent: everything that it was asked to store until its next restart.
        acknowledged: how many of them it had acknowledged.
        safe_offset: CommitLog offset before which the power can take nothing any more.
    """

    moment: int
    sent: list[Sent]
    acknowledged: int
    safe_offset: int


class Outcome(NamedTuple):
    """What recovering one state gave.

    Attributes:
        acknowledged: messages that had been acknowledged when the power failed.
        lost: how many of them are gone; all had been acknowledged since the last sync.
        again: whether the power failed in a recovery, or soon after it.
    """

    acknowledged: int
    lost: int
    again: bool = False


class Life:
    """A life of a store, and what was promised in it.

    Args:
        before: what had been promised of what is on ``disk``.
    """

    def __init__(
        self, strategy: Strategy, disk: RecordedDisk, before: Mark, chance: Random, now_ms: int, number: int
    ) -> None:
        self.strategy = strategy
        self.settings = from_properties(SMALL | strategy.settings)
        self.disk = disk
        self.chance = chance
        self.clock = ManualClock(now_ms)
        self.number = number
        self.asked: deque[Callable[[], object]] = deque()
        self.marks = [before._replace(moment=0)]
        self.sent = before.sent
        self.open(before.safe_offset)

    def after(self, moment: int, disk: RecordedDisk) -> tuple[Self, Outcome]:
        """Recover a state that the power left after so many operations of this life."""
        mark = self.marks[bisect_right(self.marks, moment, key=lambda mark: mark.moment) - 1]
        now_ms = self.clock.now_ms() + self.chance.choice((0, 1_000))
        known = self.known_after(moment)
        life = type(self)(self.strategy, disk, mark, self.chance, now_ms, self.number, *known)
        return life, Outcome(mark.acknowledged, max(mark.acknowledged - len(life.sent), 0))

    def known_after(self, moment: int) -> tuple[Any, ...]:  # noqa: ARG002  one kind of life needs it
        """Return what else the life after so many operations of this one is made of."""
        return ()

    def live(self, steps: int) -> None:
        """Run some steps, and stop."""
        choices = [self.append] * 6 + [self.flush, self.keep_up, self.restart, self.kill]
        if self.strategy.has_pool:
            choices += [self.commit] * 2
        for _ in range(steps):
            self.chance.choice(choices)()
        self.store.close()

    def append(self) -> None:
        messages = [self.new_message() for _ in range(self.chance.randint(1, 5))]
        self.sent.extend(map(Sent, messages, self.store.append(messages)))
        self.clock.advance(self.chance.choice((0, 1, 100)))
        self.mark()

    def new_message(self) -> NewMessage:
        self.number += 1
        topic, queue_id = self.chance.choice(PLACES)
        keys = self.chance.sample(KEYS, self.chance.randint(0, 3))
        body = b"%d;" % self.number + self.chance.randbytes(self.chance.choice(SIZES))
        text = properties.encode({properties.KEYS: " ".join(keys)} if keys else {})
        return NewMessage(topic, queue_id, body, text, 1_000, HOST, HOST)

    def commit(self) -> None:
        """Write what is in the pool to the files, as a thread does all the time."""
        committer = self.store.flusher._committer
        assert committer is not None
        committer.commit()
        self.catch_up()

    def flush(self) -> None:
        self.store.wait_flushed().result(60)
        self.catch_up()
        self.mark()

    def catch_up(self) -> None:
        """Run what the store's threads have asked for."""
        while self.asked:
            self.asked.popleft()()

    def keep_up(self) -> None:
        """Sync the derived files and let the checkpoint vouch for them, as happens each minute."""
        self.clock.advance(self.settings.flush_consume_queue_thorough_interval)
        paths = self.store.tick()
        time = self.store.dispatched_time
        self.store.sync_files(paths)
        self.store.vouch(time)

    def restart(self) -> None:
        self.store.close()
        self.open(self.store.written_offset)

    def kill(self) -> None:
        killed, self.disk = self.store, self.disk.after_kill()
        safe_offset = killed.committed_offset
        killed.close()
        self.clock.advance(self.chance.choice((1, 1_000)))
        self.open(safe_offset)

    def open(self, safe_offset: int) -> None:
        run_soon = self.asked.append if self.strategy.has_pool else None
        self.store = MessageStore.open(
            ROOT, self.settings, files=self.disk, clock=self.clock, run_soon=run_soon
        )
        self.sent = check(self.store, self.sent, safe_offset)
        self.mark()

    def mark(self) -> None:
        """Record what is promised now."""
        moment, safe_offset = len(self.disk.operations), self.store.flushed_offset
        self.marks.append(Mark(moment, self.sent, len(self.sent), safe_offset))


def check(
    store: MessageStore,
    sent: list[Sent],
    safe_offset: int,
    *,
    begin: int = 0,
    alive_from: Callable[[str, list[Sent]], int] = lambda _topic, _kept: 0,
) -> list[Sent]:
    """Check all that an opened store serves; return what it has, or had, of what was sent.

    Args:
        safe_offset: CommitLog offset before which nothing may be missing.
        begin: CommitLog offset before which messages have expired.
        alive_from: returns where the messages begin that a topic has had since its last deletion.
    """
    assert (store.recovered.damages, store.recovered.gaps) == ([], [])
    kept = [one for one in sent if one.end <= store.written_offset]
    assert kept == sent[: len(kept)]
    assert all(one.end > safe_offset for one in sent[len(kept) :]), "lost what was promised"
    alive = {topic: alive_from(topic, kept) for topic, _ in PLACES}
    for topic, queue_id in PLACES:
        place = [one for one in kept if (one.message.topic, one.message.queue_id) == (topic, queue_id)]
        expected = [one for one in place if one.at.physical_offset >= alive[topic]]
        assert [one.at.queue_offset for one in expected] == list(range(len(expected)))
        assert store.max_queue_offset(topic, queue_id) == len(expected)
        there = [as_read(*one) for one in expected if one.at.physical_offset >= begin]
        assert read_from(store, topic, queue_id, store.min_queue_offset(topic, queue_id)) == there
    for topic, key in itertools.product(alive, KEYS):
        found = [record.body for record in map(decode, store.query(topic, key, 64).records)]
        keyed = [one for one in kept if has_key(one.message, topic, key)]
        assert found == [one.message.body for one in keyed if one.at.physical_offset >= begin][-64:]
    return kept


def read_from(store: MessageStore, topic: str, queue_id: int, offset: int) -> list[Read]:
    """Read a queue from an offset to its last."""
    found: list[Read] = []
    while offset < store.max_queue_offset(topic, queue_id):
        records = store.get(topic, queue_id, offset).records
        assert records, f"{topic}-{queue_id} cannot be read at {offset}"
        for raw in records:
            record = decode(raw)
            at = Appended(record.physical_offset, record.queue_offset, len(raw), record.store_time)
            found.append((record.topic, record.queue_id, record.body, record.properties, at))
        offset += len(records)
    return found


def as_read(message: NewMessage, at: Appended) -> Read:
    return message.topic, message.queue_id, message.body, message.properties, at


def has_key(message: NewMessage, topic: str, key: str) -> bool:
    return message.topic == topic and key.encode() in message.properties


def campaign(strategy: Strategy, seed: int) -> Iterator[Outcome]:
    """Recover states of life after life, whose seeds follow ``seed``; without end."""
    for number in itertools.count(seed):
        yield from recover_a_life(strategy, number)


def recover_a_life(strategy: Strategy, seed: int) -> Iterator[Outcome]:
    """Run a store, and recover states of its disk. Its seed is all that is needed to do it again."""
    chance = Random(seed)
    life = Life(strategy, RecordedDisk(), Mark(0, [], 0, 0), chance, 1_700_000_000_000, 0)
    life.live(STEPS)
    moments = sorted(chance.randint(0, len(life.disk.operations)) for _ in range(STATES_OF_A_LIFE))
    for moment, disk in zip(moments, life.disk.states(moments, chance), strict=True):
        try:
            yield from _recover(life, moment, disk)
        except Exception as error:  # whatever it is, it must say how to see it again
            raise AssertionError(
                f"{strategy.name}: seed {seed}, power lost after operation {moment}"
            ) from error


def _recover(life: Life, moment: int, disk: RecordedDisk, *, again: bool = False) -> Iterator[Outcome]:
    later, outcome = life.after(moment, disk)
    later.live(2)
    yield outcome._replace(again=again)
    if life.chance.random() < FAILS_AGAIN:
        moment = life.chance.randint(0, len(later.disk.operations))
        yield from _recover(later, moment, next(later.disk.states([moment], life.chance)), again=True)
