"""Bodies of the requests between brokers and RocketMQ's controller, and about epochs.

RocketMQ: ``SyncStateSet.java``, ``ElectMasterResponseBody.java``, ``BrokerReplicasInfo.java``,
``EpochEntryCache.java``.
"""

from msgspec import field

from cometmq.format.java import fastjson
from cometmq.wire.bodies.body import Body
from cometmq.wire.bodies.route import BrokerMembers
from cometmq.wire.headers.fields import Int, Long


class SyncStateSet(Body):
    """The ids of the brokers that have all confirmed records: only they can be elected.

    Attributes:
        set_epoch: its version, which the controller counts; in a request the one to be replaced.
    """

    members: frozenset[Long] = field(default_factory=frozenset, name="syncStateSet")
    set_epoch: Int = field(default=0, name="syncStateSetEpoch")


class ElectedMembers(Body):
    """CONTROLLER_ELECT_MASTER: the brokers of the set, and those in sync."""

    members: BrokerMembers | None = field(default=None, name="brokerMemberGroup")
    in_sync: frozenset[Long] = field(default_factory=frozenset, name="syncStateSet")


class KnownReplica(Body):
    """One broker of a set, as the controller knows it."""

    alive: bool
    address: str = field(name="brokerAddress")
    broker_id: Long
    broker_name: str


class ReplicasOfSet(Body):
    """The brokers of a set, as the controller knows them."""

    in_sync: list[KnownReplica] = field(default_factory=list, name="inSyncReplicas")
    not_in_sync: list[KnownReplica] = field(default_factory=list, name="notInSyncReplicas")
    master_id: Long | None = field(default=None, name="masterBrokerId")
    master_address: str | None = None
    master_epoch: Int = 0
    set_epoch: Int = field(default=0, name="syncStateSetEpoch")


class SyncStateData(Body):
    """CONTROLLER_GET_SYNC_STATE_DATA: by broker name."""

    sets: dict[str, ReplicasOfSet] = field(default_factory=dict, name="replicasInfoTable")


class EpochSpan(Body):
    """An epoch and its place in the CommitLog; the end of the last one is the greatest number."""

    epoch: Int
    start_offset: Long
    end_offset: Long


class EpochsOfBroker(Body):
    """GET_BROKER_EPOCH_CACHE: the epochs of a broker's log.

    Attributes:
        broker_id: 0 for the master.
        max_offset: end of the broker's CommitLog.
    """

    cluster_name: str
    broker_name: str
    broker_id: Long
    epochs: list[EpochSpan] = field(name="epochList")
    max_offset: Long


def encode_broker_names(names: list[str]) -> bytes:
    """Encode the body of CONTROLLER_GET_SYNC_STATE_DATA, a list of broker names."""
    return fastjson.dumps(names).encode()
