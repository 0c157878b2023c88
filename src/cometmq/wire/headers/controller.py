"""Headers of the requests between brokers and RocketMQ's controller.

RocketMQ: ``protocol/header/controller/*.java``, ``NotifyBrokerRoleChangedRequestHeader.java``.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long


class ControllerMetadataHeader(Header):
    """The answer to CONTROLLER_GET_METADATA_INFO, which each controller gives.

    Attributes:
        leader_address: where the leader answers brokers; None or empty while there is none.
        peers: all controllers, as ``n0:127.0.0.1:28301;…``.
    """

    group: str | None = None
    leader_id: str | None = field(default=None, name="controllerLeaderId")
    leader_address: str | None = field(default=None, name="controllerLeaderAddress")
    is_leader: bool = False
    peers: str | None = None


class NextBrokerIdHeader(Header):
    """CONTROLLER_GET_NEXT_BROKER_ID: the set of brokers in which a new one wants an id."""

    cluster_name: str
    broker_name: str


class NextBrokerIdResponseHeader(NextBrokerIdHeader):
    """The least id that no broker of the set has applied for: 1 in a new set."""

    next_broker_id: Long


class ApplyBrokerIdHeader(NextBrokerIdHeader):
    """CONTROLLER_APPLY_BROKER_ID.

    Attributes:
        check_code: ``address;ms``, by which the controller knows a broker that applies again.
    """

    broker_id: Long = field(name="appliedBrokerId")
    check_code: str = field(name="registerCheckCode")


class RegisterAtControllerHeader(NextBrokerIdHeader):
    """CONTROLLER_REGISTER_BROKER: a broker with an id is there, at an address.

    Attributes:
        invoke_time: when it was sent, ms since the epoch.
    """

    broker_id: Long
    broker_address: str
    invoke_time: Long


class ElectMasterHeader(NextBrokerIdHeader):
    """CONTROLLER_ELECT_MASTER.

    Attributes:
        broker_id: who asks; with ``designate_elect`` who shall be the master.
        designate_elect: whether an operator chooses the master, though another one lives.
    """

    broker_id: Long
    invoke_time: Long
    designate_elect: bool = False


class MasterHeader(Header):
    """Who is the master of a set, and since which epoch.

    The answer to CONTROLLER_ELECT_MASTER, CONTROLLER_REGISTER_BROKER and CONTROLLER_GET_REPLICA_INFO (without
    the last field), and the request NOTIFY_BROKER_ROLE_CHANGED. Fields are missing while there is no master.

    Attributes:
        set_epoch: the version of the sync state set.
    """

    broker_id: Long | None = field(default=None, name="masterBrokerId")
    address: str | None = field(default=None, name="masterAddress")
    epoch: Int | None = field(default=None, name="masterEpoch")
    set_epoch: Int | None = field(default=None, name="syncStateSetEpoch")


class AlterSyncStateSetHeader(Header):
    """CONTROLLER_ALTER_SYNC_STATE_SET: the master asks for another sync state set, which is the body."""

    broker_name: str
    master_id: Long = field(name="masterBrokerId")
    master_epoch: Int
    invoke_time: Long


class AlterSyncStateSetResponseHeader(Header):
    """The version of the new sync state set."""

    set_epoch: Int = field(name="newSyncStateSetEpoch")
