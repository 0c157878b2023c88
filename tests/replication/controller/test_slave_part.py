"""A slave's part in its set: what it takes of its master's log, and what may be read of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.conftest import SMALL
from tests.replication.controller.parts import membership_of
from tests.store.conftest import new_message

from cometmq.errors import NetworkError
from cometmq.replication.controller import frames
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.controller.slave_part import EpochIntake, SlavePart
from cometmq.replication.epochs import EpochEntry, EpochList
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

MASTER = EpochList.of((1, 0))


class Desk:
    """A slave's store, its part, and the log of a master with two messages."""

    def __init__(self, root: Path, store: MessageStore) -> None:
        with MessageStore.open(root / "master", StoreSettings(**SMALL)) as master:
            master.append([new_message(), new_message()])
            self.log = bytes(run(master.readings.log_bytes(0, 1 << 20)) or b"")
        self.store = store
        self.membership, self.overseer = membership_of(root / "slave", MasterNews(1, "m:1", 1), own_id=2)
        self.part = SlavePart(store, self.membership)

    def intake(self) -> EpochIntake:
        return self.part.make_intake()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with MessageStore.open(tmp_path / "slave", StoreSettings(**SMALL)) as store:
        yield Desk(tmp_path, store)


def one(data: bytes) -> frames.SlaveHandshake | frames.SlaveReport:
    (frame,) = frames.SlaveFrames().receive(data)
    return frame


async def test_the_masters_log_is_taken_and_shown_as_far_as_it_is_confirmed(desk: Desk) -> None:
    intake, size = desk.intake(), len(desk.log)
    assert one(intake.begin()) == frames.SlaveHandshake(2)
    assert not intake.is_level and intake.report() == b"" and not desk.part.is_level
    await intake.received(frames.MasterHandshake(size, MASTER).encode())
    assert intake.is_level and desk.part.is_level and one(intake.report()) == frames.SlaveReport(0)
    for at in (0, size // 2):
        data = desk.log[at : at + size // 2]
        await intake.received(frames.MasterData(at, EpochEntry(1, 0), size // 2, data).encode())
    assert one(intake.report()) == frames.SlaveReport(size)
    assert desk.membership.epochs.load() == MASTER and desk.overseer.said == [("epoch", 1)]
    assert desk.store.written_offset == size and desk.store.max_queue_offset("Orders", 0) == 1
    await intake.received(frames.MasterData(size, EpochEntry(1, 0), size).encode())
    assert desk.store.max_queue_offset("Orders", 0) == 2


async def test_a_log_that_goes_beyond_the_masters_is_truncated_by_whoever_runs_the_broker(
    desk: Desk,
) -> None:
    desk.membership.epochs.save(MASTER)
    desk.store.append([new_message()])
    intake = desk.intake()
    with pytest.raises(NetworkError, match="truncated at 0 first"):
        await intake.received(frames.MasterHandshake(0, MASTER).encode())
    assert desk.overseer.said == [("truncate", 0)]
    assert not desk.part.is_level and intake.report() == b""
