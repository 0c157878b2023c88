"""A controller of the tests' own: RocketMQ's rules of ids, elections and sync state sets, in memory."""

from cometmq.replication.controller.in_sync_set import Proposal
from cometmq.replication.controller.life import MasterNews
from cometmq.wire.codes import ResponseCode


class Refusal(Exception):
    def __init__(self, code: ResponseCode) -> None:
        super().__init__(code.name)
        self.code = code


class ModelController:
    """The controller of one set.

    Attributes:
        epoch: of the last master, also of failed elections.
        masters: the master of each epoch that had one.
    """

    def __init__(self) -> None:
        self.codes: dict[int, str] = {}
        self.addresses: dict[int, str] = {}
        self.alive: set[int] = set()
        self.master: int | None = None
        self.epoch = 0
        self.in_sync: frozenset[int] = frozenset()
        self.set_epoch = 0
        self.masters: dict[int, int] = {}

    def next_id(self) -> int:
        return max(self.codes, default=0) + 1

    def apply(self, broker_id: int, code: str) -> None:
        if self.codes.setdefault(broker_id, code) != code:
            raise Refusal(ResponseCode.CONTROLLER_BROKER_ID_INVALID)

    def register(self, broker_id: int, address: str) -> MasterNews:
        if broker_id not in self.codes:
            raise Refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED)
        self.addresses[broker_id] = address
        return self.news() if self.master in self.alive else MasterNews()

    def heartbeat(self, broker_id: int) -> None:
        self.alive.add(broker_id)

    def elect(self, broker_id: int | None) -> MasterNews:
        if self.master in self.alive:
            return self.news()
        candidates = self.in_sync & self.alive
        if not self.masters and broker_id is not None:
            candidates = frozenset({broker_id})
        self.epoch += 1
        self.master = min(candidates, default=None)
        if self.master is None:
            return MasterNews(epoch=self.epoch)
        self.masters[self.epoch] = self.master
        self.in_sync = frozenset({self.master})
        self.set_epoch += 1
        return self.news()

    def lose(self, broker_id: int) -> MasterNews | None:
        """Count a broker as dead; return whom the others hear of if it was the master."""
        self.alive.discard(broker_id)
        return self.elect(None) if broker_id == self.master else None

    def alter(self, master: int, epoch: int, proposal: Proposal) -> MasterNews:
        if proposal.members == self.in_sync:
            raise Refusal(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED)
        if master != self.master:
            raise Refusal(ResponseCode.CONTROLLER_INVALID_MASTER)
        if epoch != self.epoch:
            raise Refusal(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH)
        if proposal.set_epoch != self.set_epoch:
            raise Refusal(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH)
        if not proposal.members <= self.codes.keys():
            raise Refusal(ResponseCode.CONTROLLER_INVALID_REPLICAS)
        if not proposal.members - self.in_sync <= self.alive:
            raise Refusal(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE)
        if master not in proposal.members:
            raise Refusal(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED)
        self.in_sync = proposal.members
        self.set_epoch += 1
        return self.news()

    def news(self) -> MasterNews:
        if self.master is None:
            return MasterNews(epoch=self.epoch)
        address = self.addresses.get(self.master, "")
        return MasterNews(self.master, address, self.epoch, self.in_sync, self.set_epoch)
