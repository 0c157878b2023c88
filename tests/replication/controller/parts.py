"""What tests of one part of a set need of the others: who runs the broker, and the place that it has."""

import asyncio
from pathlib import Path

from cometmq.io.files import Disk
from cometmq.replication.controller.in_sync_set import InSyncSet, Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.epochs import EpochFile, EpochList


class OverseerOfTest:
    """Records what it is told.

    Attributes:
        accepts: whether the controller accepts other sync state sets.
    """

    def __init__(self) -> None:
        self.said: list[object] = []
        self.accepts = True

    def notified(self) -> None:
        self.said.append("notice")

    async def propose(self, in_sync: InSyncSet, proposal: Proposal) -> None:
        self.said.append(sorted(proposal.members))
        await asyncio.sleep(0)
        if self.accepts:
            in_sync.settle(proposal.members, proposal.set_epoch + 1, 0)
        else:
            in_sync.refused(0)

    def truncate(self, offset: int) -> None:
        self.said.append(("truncate", offset))

    def log_reached(self, epoch: int) -> None:
        self.said.append(("epoch", epoch))


def membership_of(
    root: Path, news: MasterNews, epochs: EpochList | None = None, own_id: int = 1
) -> tuple[SetMembership, OverseerOfTest]:
    """Return a place in a set, and who is told about it; the epochs are those of the log so far."""
    file, overseer = EpochFile(Disk(), root), OverseerOfTest()
    if epochs is not None:
        file.save(epochs)
    return SetMembership(own_id, news, file, overseer), overseer
