"""The life of a broker under a controller: events in, instructions out. No clock, no network, no files.

Theory of operation::

    STARTING ─► APPLYING ─► REGISTERING ─► ELECTING ─► SLAVE ◄─► MASTER
     a leader    an id is    the broker     no master
     is sought   applied for says that      is known
                             it is there

Until the broker is SLAVE or MASTER for the first time it is *fenced*: it takes no messages and is registered
at no name server, whatever it was before. From then on only the controller changes its role, and each change
has an epoch greater than the one before: what is older, come late or twice, changes nothing. So no two
brokers are masters of one epoch, as the controller names one for each.

Each question to the controller is an instruction, its answer an event. A question that fails is asked again
``RETRY_MS`` later. ``tick`` must be called at least once a second: it returns what is due.

Source: RocketMQ ``broker/controller/ReplicasManager.java``.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from cometmq.replication.controller.identity import IdApplication

RETRY_MS: Final = 5_000
LEADER_RETRY_MS: Final = 1_000
"""Wait before the next search for a leader, while the broker knows none."""
HEARTBEAT_MS: Final = 1_000
"""Interval of heartbeats (RocketMQ: ``brokerHeartbeatInterval``)."""
REPLICAS_MS: Final = 5_000
"""Interval of questions about the master (RocketMQ: ``syncBrokerMetadataPeriod``)."""
LEADER_MS: Final = 10_000
"""Interval of questions about the controllers' leader (RocketMQ: ``syncControllerMetadataPeriod``)."""


class Stage(StrEnum):
    """How far a broker has come."""

    STARTING = "starting"
    APPLYING = "applying"
    REGISTERING = "registering"
    ELECTING = "electing"
    SLAVE = "slave"
    MASTER = "master"


class MasterNews(NamedTuple):
    """What a controller says about the master of a set.

    Attributes:
        broker_id: the master; None if there is none.
        address: where clients reach it.
        epoch: its epoch; without a master the greatest one that a master had or could not be elected for.
        in_sync: the sync state set.
        set_epoch: the version of that; -1 if the controller did not say.
    """

    broker_id: int | None = None
    address: str = ""
    epoch: int = 0
    in_sync: frozenset[int] = frozenset()
    set_epoch: int = -1


@dataclass(frozen=True)
class FindLeader:
    """Ask all controllers for their leader; event ``leader_found``."""


@dataclass(frozen=True)
class AskNextId:
    """Ask for an id that is free; event ``id_offered``."""


@dataclass(frozen=True)
class Apply:
    """Apply for an id, once the application is on the disk; events ``id_assigned``, ``id_refused``."""

    application: IdApplication


@dataclass(frozen=True)
class DropApplication:
    """Remove the application from the disk: the id belongs to another broker."""


@dataclass(frozen=True)
class KeepId:
    """Save the id that the controller has assigned, and remove the application."""

    broker_id: int


@dataclass(frozen=True)
class Register:
    """Register at the controller; event ``news``."""

    broker_id: int


@dataclass(frozen=True)
class SendHeartbeats:
    """Send a heartbeat to each controller, one-way."""


@dataclass(frozen=True)
class Elect:
    """Ask for an election; event ``news``, also if there is a master already, or none could be elected."""


@dataclass(frozen=True)
class AskReplicas:
    """Ask who is the master; events ``news``, ``unregistered``."""


@dataclass(frozen=True)
class BecomeMaster:
    """Become the master of an epoch, or begin a new epoch as the master that it was before (``stays``)."""

    news: MasterNews
    stays: bool


@dataclass(frozen=True)
class BecomeSlave:
    """Follow a master, or the same one in a new epoch (``stays``)."""

    news: MasterNews
    stays: bool


@dataclass(frozen=True)
class SettleSet:
    """Replace the sync state set by the controller's, which may be the same."""

    in_sync: frozenset[int]
    set_epoch: int


@dataclass(frozen=True)
class Unfence:
    """Register at the name servers, and serve."""


@dataclass(frozen=True)
class WarnOldEpoch:
    """Log that the controller names a master of an older epoch than the log's: it has lost its state."""

    epoch: int
    log_epoch: int


Instruction: TypeAlias = (
    FindLeader
    | AskNextId
    | Apply
    | DropApplication
    | KeepId
    | Register
    | SendHeartbeats
    | Elect
    | AskReplicas
    | BecomeMaster
    | BecomeSlave
    | SettleSet
    | Unfence
    | WarnOldEpoch
)


class BrokerLife:
    """The state of one broker.

    Args:
        address: where clients reach the broker, ``host:port``.
        broker_id: the id that it has, from its file.
        application: the id that it was applying for when it stopped.
        log_epoch: the last epoch of its log; -1 without one.

    Attributes:
        stage: how far it has come.
        broker_id: its id; None until one is assigned.
        epoch: of the master that it knows; 0 while it knows none.
        master_id: that master.
        set_epoch: the version of the sync state set that it knows, as the master.
        fenced: whether it may not serve.
    """

    def __init__(
        self,
        address: str,
        *,
        broker_id: int | None = None,
        application: IdApplication | None = None,
        log_epoch: int = -1,
    ) -> None:
        self.stage = Stage.STARTING
        self.broker_id = broker_id
        self.epoch = 0
        self.master_id: int | None = None
        self.set_epoch = -1
        self.fenced = True
        self._address = address
        self._application = application
        self._log_epoch = log_epoch
        self._retry_at: int | None = None  # when the pending question counts as lost
        self._heartbeat_at = self._replicas_at = self._leader_at = self._elect_at = 0

    @property
    def is_master(self) -> bool:
        """Whether the broker is the master of ``epoch``."""
        return self.stage is Stage.MASTER

    def tick(self, now_ms: int) -> list[Instruction]:
        """Return what is due: heartbeats, questions at intervals, and those that failed."""
        due: list[Instruction] = []
        if self.stage is Stage.STARTING:
            if self._asks(now_ms):
                self._retry_at = now_ms + LEADER_RETRY_MS
                due.append(FindLeader())
            return due
        if now_ms >= self._leader_at:
            self._leader_at = now_ms + LEADER_MS
            due.append(FindLeader())
        if self.stage in (Stage.SLAVE, Stage.MASTER):
            if now_ms >= self._replicas_at:
                self._replicas_at = now_ms + REPLICAS_MS
                due.append(AskReplicas())
        elif self._asks(now_ms):
            due += self._question(now_ms)
        if self._registered and now_ms >= self._heartbeat_at:
            self._heartbeat_at = now_ms + HEARTBEAT_MS
            due.insert(0, SendHeartbeats())
        return due

    def leader_found(self, now_ms: int) -> list[Instruction]:
        """Handle that the controllers have a leader."""
        self._leader_at = now_ms + LEADER_MS
        if self.stage is not Stage.STARTING:
            return []
        self.stage = Stage.APPLYING if self.broker_id is None else Stage.REGISTERING
        return self._question(now_ms)

    def id_offered(self, broker_id: int, now_ms: int) -> list[Instruction]:
        """Handle that an id is free."""
        if self.stage is not Stage.APPLYING or self._application is not None:
            return []
        self._application = IdApplication(broker_id, f"{self._address};{now_ms}")
        return self._question(now_ms)

    def id_assigned(self, broker_id: int, now_ms: int) -> list[Instruction]:
        """Handle that the controller has assigned the id that was applied for."""
        if self.stage is not Stage.APPLYING or self._application is None:
            return []
        if self._application.broker_id != broker_id:
            return []
        self.broker_id, self._application = broker_id, None
        self.stage = Stage.REGISTERING
        return [KeepId(broker_id), *self._question(now_ms)]

    def id_refused(self, broker_id: int, now_ms: int) -> list[Instruction]:
        """Handle that another broker has the id that was applied for."""
        if self.stage is not Stage.APPLYING or self._application is None:
            return []
        if self._application.broker_id != broker_id:
            return []
        self._application = None
        return [DropApplication(), *self._question(now_ms)]

    def unregistered(self, now_ms: int) -> list[Instruction]:
        """Handle that the controller does not know the broker: it has lost its state, or was cleaned."""
        if self.broker_id is None:
            return []
        self._retry_at = now_ms + RETRY_MS
        return [Register(self.broker_id)]

    def news(self, news: MasterNews, now_ms: int) -> list[Instruction]:
        """Handle what the controller says about the master: answers of all kinds, and its own notices."""
        if self.broker_id is None:
            return []
        if self.stage is Stage.REGISTERING:
            self.stage = Stage.ELECTING
        if news.broker_id is None:
            return self._without_master(news, now_ms)
        if news.epoch < self.epoch:
            return []  # a master whose time is over
        if news.epoch < self._log_epoch:
            return [WarnOldEpoch(news.epoch, self._log_epoch)]
        if news.epoch == self.epoch:
            return self._settle(news)
        instruction = self._change_role(news)
        self._retry_at = None
        self._replicas_at = now_ms + REPLICAS_MS
        if not self.fenced:
            return [instruction]
        self.fenced = False
        self._heartbeat_at = now_ms + HEARTBEAT_MS
        return [SendHeartbeats(), instruction, Unfence()]

    def failed(self, now_ms: int) -> None:
        """Handle that a question had no answer, or a refusal that changes nothing: it is asked again."""
        self._retry_at = now_ms + (LEADER_RETRY_MS if self.stage is Stage.STARTING else RETRY_MS)

    def set_settled(self, epoch: int, set_epoch: int) -> None:
        """Handle that the controller has accepted another sync state set, which this broker asked for."""
        if epoch == self.epoch:
            self.set_epoch = max(self.set_epoch, set_epoch)

    def log_reached(self, epoch: int) -> None:
        """Handle that the log has records of an epoch: no older master is followed from now on."""
        self._log_epoch = max(self._log_epoch, epoch)

    @property
    def _registered(self) -> bool:
        return self.stage in (Stage.ELECTING, Stage.SLAVE, Stage.MASTER)

    def _asks(self, now_ms: int) -> bool:
        """Return whether a question may be asked: none is pending, or that one counts as lost."""
        if self._retry_at is not None and now_ms < self._retry_at:
            return False
        self._retry_at = now_ms + RETRY_MS
        return True

    def _question(self, now_ms: int) -> list[Instruction]:
        """Return the question of a stage before the first role."""
        self._retry_at = now_ms + RETRY_MS
        if self.stage is Stage.APPLYING:
            return [AskNextId() if self._application is None else Apply(self._application)]
        if self.stage is Stage.REGISTERING and self.broker_id is not None:
            return [Register(self.broker_id)]
        return self._ask_election(now_ms)

    def _ask_election(self, now_ms: int) -> list[Instruction]:
        self._elect_at = self._retry_at = now_ms + RETRY_MS
        self._heartbeat_at = now_ms + HEARTBEAT_MS
        return [SendHeartbeats(), Elect()]  # only the living are elected

    def _without_master(self, news: MasterNews, now_ms: int) -> list[Instruction]:
        """Ask for an election, unless one was asked for in the last seconds."""
        if self.stage in (Stage.SLAVE, Stage.MASTER) and news.epoch <= self.epoch:
            return []  # from before the present master was elected
        return [] if now_ms < self._elect_at else self._ask_election(now_ms)

    def _settle(self, news: MasterNews) -> list[Instruction]:
        """Replace the sync state set, if this broker is the master and the set is no older one."""
        if self.stage is not Stage.MASTER or news.set_epoch < self.set_epoch:
            return []
        self.set_epoch = news.set_epoch
        return [SettleSet(news.in_sync, news.set_epoch)]

    def _change_role(self, news: MasterNews) -> Instruction:
        stays = news.broker_id == self.master_id
        self.epoch, self.master_id = news.epoch, news.broker_id
        if news.broker_id != self.broker_id:
            self.stage, self.set_epoch = Stage.SLAVE, -1
            return BecomeSlave(news, stays)
        self.stage, self.set_epoch = Stage.MASTER, news.set_epoch
        self._log_epoch = max(self._log_epoch, news.epoch)
        return BecomeMaster(news, stays)
