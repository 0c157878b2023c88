"""A running broker's place in its set: what the controller made of it, and whom it tells about itself."""

from dataclasses import dataclass
from typing import Protocol

from cometmq.replication.controller.in_sync_set import InSyncSet, Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.epochs import EpochFile


class Overseer(Protocol):
    """Who runs a broker under a controller, and is told what concerns its role."""

    def notified(self) -> None:
        """Ask the controller for the master, as somebody has given notice of another one."""
        ...

    async def propose(self, in_sync: InSyncSet, proposal: Proposal) -> None:
        """Ask for another sync state set, and hand the answer to ``in_sync``, which made the proposal."""
        ...

    def truncate(self, offset: int) -> None:
        """Stop the broker soon, truncate its log at an offset, and start it again."""
        ...

    def log_reached(self, epoch: int) -> None:
        """Handle that the log has records of an epoch."""
        ...


@dataclass(frozen=True)
class SetMembership:
    """A broker's place in its set, when it starts.

    Attributes:
        own_id: its id by the controller.
        news: who is the master, since which epoch.
        epochs: the epochs of its log.
        overseer: who runs it.
    """

    own_id: int
    news: MasterNews
    epochs: EpochFile
    overseer: Overseer

    @property
    def is_master(self) -> bool:
        """Whether the broker is the master."""
        return self.news.broker_id == self.own_id
