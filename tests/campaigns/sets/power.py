"""The power of a master's machine fails, and its slave goes on: nothing that was acknowledged may be lost.

    python -m tests.campaigns power [--states 1000] [--seed N]

A life of a master as in ``storage.power_loss``, all of whose operations on its disk are recorded.
Its log goes to a slave in pieces that are cut anywhere, and a send is acknowledged once the slave has its
message (SYNC_MASTER, ``inSyncReplicas=2``). At random moments, most often in the middle of an operation, the
power of the master fails. The slave, stopped or killed, is started as the master: it must have all that was
acknowledged, nothing that was not sent, and take messages as if nothing had been. Then the old master
recovers what its disk holds, and becomes the slave: either it gets what it lacks, and both logs are equal, or
it has messages that nobody was told are stored, and which the new master lacks.
"""

import itertools
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from tests.campaigns.kit.options import add_numbers
from tests.campaigns.storage.power_loss import ROOT, SMALL, Life, Mark, Sent, check
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

from cometmq.io.clock import ManualClock
from cometmq.replication.acks import NOTHING, SlaveAcks
from cometmq.replication.frames import LogFrameReader, encode_frames
from cometmq.replication.settings import BATCH_MAX
from cometmq.store import MessageStore
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings, from_properties
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.testing.recorded_disk import RecordedDisk

OF_SLAVE: Final = from_properties(SMALL)
STEPS: Final = 60
UNREPORTED: Final = 0.2
"""The share of what a slave gets before it loses its connection, or its master's power fails."""
PIECE_MAX: Final = 6_000
FRAME_MAX: Final = 2_000
ALL: Final = 1 << 40
BEGIN_MS: Final = 1_700_000_000_000


class Failure(NamedTuple):
    """The power fails after so many operations on the master's disk.

    Attributes:
        slave: the disk of the slave, which was stopped or killed then.
        sent: everything that the master was asked to store.
        acked: the CommitLog offset before which all was acknowledged; NOTHING at first.
    """

    moment: int
    slave: MemoryDisk
    sent: list[Sent]
    acked: int


class Outcome(NamedTuple):
    """What became of one failure.

    Attributes:
        acknowledged: messages that had been acknowledged; the new master has them.
        kept: messages that it has.
        has_diverged: whether the old master has some that the new one lacks.
    """

    acknowledged: int
    kept: int
    has_diverged: bool


class Follower:
    """A slave: its store, and what it gets of its master's log."""

    def __init__(self, disk: MemoryDisk, settings: StoreSettings, clock: ManualClock, chance: Random) -> None:
        self.disk = disk
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self.store = self._open()
        self.connect()

    def connect(self) -> None:
        """Begin a new connection: what had come of a record is forgotten."""
        self.store.received.forget_rest()
        self._frames = LogFrameReader(BATCH_MAX)
        self._next = self.store.received.end_offset

    def receive(self, master: MessageStore, size_max: int) -> bool:
        """Receive the next bytes of the master's log, at most so many; return whether there were any."""
        data = run(master.readings.log_bytes(self._next, size_max))
        if data is None:
            return False
        self._next += len(data)
        frames = b"".join(encode_frames(self._next - len(data), data, FRAME_MAX))
        at = self._chance.randint(0, len(frames))
        for part in (frames[:at], frames[at:]):
            for frame in self._frames.receive(part):
                self.store.received.append(frame.offset, frame.data)
        return True

    def keep_up(self) -> None:
        """Sync the derived files, as happens each minute."""
        paths = self.store.tick()
        time = self.store.dispatched_time
        self.store.sync_files(paths)
        self.store.vouch(time)

    def restart(self) -> None:
        """Stop or kill it, and start it again."""
        self.disk = self.ended()
        self.store.close()
        self.store = self._open()
        self.connect()

    def ended(self) -> MemoryDisk:
        """Return a copy of its disk as it is after a stop, or after a kill."""
        disk = self.disk.after_kill()
        if self._chance.random() < 1 / 2:
            MessageStore.open(ROOT, self._settings, files=disk, clock=self._clock).close()
        return disk

    def _open(self) -> MessageStore:
        store = MessageStore.open(ROOT, self._settings, files=self.disk, clock=self._clock)
        store.be_slave("this is a slave")
        return store


class MasterLife(Life):
    """A life of a master with a slave.

    Attributes:
        failures: of its power, in their order.
    """

    def __init__(self, strategy: Strategy, chance: Random) -> None:
        self.failures: list[Failure] = []
        self._acked = NOTHING
        self._acks = SlaveAcks(1, ALL, lambda: self.store.written_offset)
        clock = ManualClock(BEGIN_MS)
        self.follower = Follower(MemoryDisk(), OF_SLAVE, clock, chance)
        super().__init__(strategy, RecordedDisk(), Mark(0, [], 0, 0), chance, BEGIN_MS, 0)

    def live(self, steps: int) -> None:
        """Run some steps, in each of which the power fails once, and stop."""
        choices = [self.append] * 4 + [self.replicate] * 4
        choices += [self.flush, self.keep_up, self.restart, self.kill, self.follower.restart]
        choices += [self.follower.keep_up]
        if self.strategy.has_pool:
            choices += [self.commit] * 2
        for _ in range(steps):
            before = len(self.disk.operations)
            self.chance.choice(choices)()
            moment = self.chance.randint(before, len(self.disk.operations))
            failure = Failure(moment, self.follower.ended(), list(self.sent), self._acked)
            self.failures.append(failure)
        self.store.close()

    def replicate(self) -> None:
        """Send the slave some of what it lacks; its report acknowledges it, if that comes through."""
        for _ in range(self.chance.randint(1, 5)):
            self.follower.receive(self.store, self.chance.randint(1, PIECE_MAX))
        if self.chance.random() < UNREPORTED:
            return
        self._acks.put(self.follower, self.follower.store.received.end_offset)
        self._acked = max(self._acked, self._acks.replicated_offset)

    def open(self, safe_offset: int) -> None:
        """Start the master; the slave connects again."""
        self._acks.remove(self.follower)
        super().open(safe_offset)
        self.follower.connect()
        assert self.follower.store.written_offset <= self.store.written_offset, "the slave has more"


def campaign(seed: int) -> Iterator[Outcome]:
    """Cut the power of master after master, each way of writing in turn; without end."""
    for number in itertools.count(seed):
        yield from fail_in_a_life(STRATEGIES[number % len(STRATEGIES)], number)


def fail_in_a_life(strategy: Strategy, seed: int) -> Iterator[Outcome]:
    """Run a master until its power fails. Its seed is all that is needed to do it again."""
    chance = Random(seed)
    life = MasterLife(strategy, chance)
    life.live(STEPS)
    states = life.disk.states([failure.moment for failure in life.failures], chance)
    for failure, old_disk in zip(life.failures, states, strict=True):
        try:
            yield _go_on(life, failure, old_disk)
        except Exception as error:  # whatever it is, it must say how to see it again
            raise AssertionError(
                f"{strategy.name}: seed {seed}, power lost after operation {failure.moment}"
            ) from error


def _go_on(life: MasterLife, failure: Failure, old_disk: RecordedDisk) -> Outcome:
    """Promote the slave, and make the old master its slave."""
    acknowledged = sum(one.end <= failure.acked for one in failure.sent)
    before = Mark(0, failure.sent, acknowledged, failure.acked)
    now_ms = life.clock.now_ms()
    master = Life(life.strategy, recorded(failure.slave), before, life.chance, now_ms, life.number)
    kept, end = len(master.sent), master.store.written_offset
    assert kept >= acknowledged
    master.append()
    master.flush()
    old = Follower(old_disk, OF_SLAVE, life.clock, life.chance)
    has_diverged = old.store.written_offset > end
    if not has_diverged:
        while old.receive(master.store, PIECE_MAX):
            pass
        assert log_of(old.store) == log_of(master.store)
        check(old.store, list(master.sent), ALL)
    old.store.close()
    master.live(2)
    return Outcome(acknowledged, kept, has_diverged)


def recorded(disk: MemoryDisk) -> RecordedDisk:
    """Return a disk that records, with the files of another."""
    other = RecordedDisk()
    for path in files_in(disk, Path("/")):
        other.make_directory(path.parent)
        other.put(path, disk.load(path))
    return other


def files_in(disk: MemoryDisk, folder: Path) -> Iterator[Path]:
    """Yield the files below a folder."""
    for path in (folder / name for name in disk.names(folder)):
        if disk.is_directory(path):
            yield from files_in(disk, path)
        else:
            yield path


def log_of(store: MessageStore) -> list[Any]:
    """Return the log of a store, in stretches."""
    found, offset = [], 0
    while (data := run(store.readings.log_bytes(offset, ALL))) is not None:
        found.append(bytes(data))
        offset += len(data)
    return found


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, states=1_000)


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found; a promise that is broken ends it."""
    logging.disable(logging.CRITICAL)  # each loss of power is worth many warnings
    outcomes = list(itertools.islice(campaign(options.seed), options.states))
    print(
        f"{len(outcomes):,} losses of power of a master: of {sum(one.acknowledged for one in outcomes):,} "
        f"acknowledged messages 0 lost; {sum(one.kept for one in outcomes):,} are on the new masters, and "
        f"{sum(one.has_diverged for one in outcomes)} old masters had some that nobody was told are stored"
    )
    return []
