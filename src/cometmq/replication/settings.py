"""The settings of replication, with RocketMQ's names and defaults.

Source: RocketMQ ``store/config/MessageStoreConfig.java``, ``common/BrokerConfig.java``.
"""

import ipaddress
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from cometmq.errors import SettingsError
from cometmq.net.address import parse_address
from cometmq.settings.values import SettingsGroup

Milliseconds: TypeAlias = Annotated[int, Meta(ge=1, le=86_400_000)]
ReplicaCount: TypeAlias = Annotated[int, Meta(ge=1, le=64)]
PeerCount: TypeAlias = Annotated[int, Meta(ge=1, le=65_536)]

BATCH_MAX: Final = 4 * 1024 * 1024 - 12
"""Most bytes of a frame's data: the read buffer of a Java slave must hold the whole frame."""

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class BrokerRole(StrEnum):
    """What a broker is to the others of its name."""

    ASYNC_MASTER = "ASYNC_MASTER"
    """It accepts messages; sends are answered without waiting for slaves."""
    SYNC_MASTER = "SYNC_MASTER"
    """It accepts messages; sends wait until ``in_sync_replicas`` have them."""
    SLAVE = "SLAVE"
    """It follows the master of its name, and accepts no messages."""


class ReplicationSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Masters and slaves; intervals in ms.

    Attributes:
        broker_role: ASYNC_MASTER, SYNC_MASTER (sends wait for slaves) or SLAVE, which needs a ``brokerId``
            above 0, the ``brokerName`` of its master and a name server, from which it learns its master.
        ha_listen_port: the port at which a master waits for slaves; 0 for any free one, by default
            ``listenPort + 1``. It is at ``bindAddress``; RocketMQ's is at all addresses.
        ha_allowed_addresses: the addresses and networks of slaves that may come plainly and unsigned, as Java
            slaves do: ``10.0.0.7,10.0.1.0/24``. Others must sign (``haTlsEnable``) with
            ``authenticationEnabled``, and cannot be slaves without it. If empty, whoever reaches the port may
            be a slave, unless ``authenticationEnabled`` or ``tlsServerMode=enforcing`` ask for more. Not
            RocketMQ's, nor are the next five.
        ha_connections_max: most connections at that port; one more closes the oldest on which no slave has
            reported yet, or is closed itself if there is none.
        ha_strangers_max: connections of an IP address on which no slave has reported yet, before the oldest
            is closed; 0 for any number.
        ha_slaves_max: most slaves that are connected at a time; further ones are refused.
        ha_tls_enable: whether a slave connects to its master by TLS, with the settings ``tlsClient…``, and
            signs as ``innerClientAuthenticationCredentials``. A Java master can do neither. If not given,
            with ``tlsServerMode=enforcing``.
        ha_send_whole_log: whether a slave without messages gets the whole log, or only what is in its last
            file, as with RocketMQ.
        ha_send_heartbeat_interval: interval of heartbeats to a silent peer, of both sides.
        ha_housekeeping_interval: silence after which the connection to the other side is closed.
        ha_transfer_batch_size: most bytes of the log in one frame.
        ha_max_gap_not_in_sync: bytes by which a slave may lag behind and still be in sync.
        in_sync_replicas: how many brokers, the master among them, must have a message before a SYNC_MASTER
            answers its send; 1, the default, waits for nobody.
        min_in_sync_replicas: with fewer brokers in sync, the master among them, sends are refused before they
            are stored. RocketMQ obeys it only with a controller, or with slaves that act as masters.
        slave_timeout: longest time that a send waits for slaves.
        slave_read_enable: whether a slave answers pulls, and a master tells readers that are far behind
            (``accessMessageInMemoryMaxRatio``) to read from a slave; set it on both.
        enable_slave_acting_master: whether, while there is no master, readers find the slave with the lowest
            ``brokerId`` in its place; set it on both, and on the name server (``--acting-masters``, or
            RocketMQ's ``supportActingMaster``). It needs ``slaveReadEnable``. Nothing is stored meanwhile;
            RocketMQ's slave also delivers what is due, to other masters.
        enable_controller_mode: whether RocketMQ's controller decides who of a ``broker_name`` is the master.
            Then ``broker_role`` and ``broker_id`` have no effect, and a master is a SYNC_MASTER.
        controller_addr: the controllers, ``host:port;host:port``.
        all_ack_in_sync_state_set: whether a message is acknowledged, and may be read, once all brokers in
            sync have it: then no election loses it. Otherwise ``in_sync_replicas`` says how many must.
        broker_election_priority: of brokers that have the same messages, the one with the lowest number
            becomes the master.
        controller_heart_beat_timeout_mills: silence after which the controller elects another master; that a
            process was killed it notices at once.
    """

    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    ha_listen_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    ha_allowed_addresses: str = ""
    ha_connections_max: PeerCount = 256
    ha_strangers_max: Annotated[int, Meta(ge=0)] = 16
    ha_slaves_max: PeerCount = 64
    ha_tls_enable: bool | None = None
    ha_send_whole_log: bool = True
    ha_send_heartbeat_interval: Milliseconds = 5_000
    ha_housekeeping_interval: Milliseconds = 20_000
    ha_transfer_batch_size: Annotated[int, Meta(ge=1024, le=BATCH_MAX)] = 32 * 1024
    ha_max_gap_not_in_sync: Annotated[int, Meta(ge=0)] = 256 * 1024 * 1024
    in_sync_replicas: ReplicaCount = 1
    min_in_sync_replicas: ReplicaCount = 1
    slave_timeout: Milliseconds = 3_000
    slave_read_enable: bool = False
    enable_slave_acting_master: bool = False
    enable_controller_mode: bool = False
    controller_addr: str = ""
    all_ack_in_sync_state_set: bool = False
    broker_election_priority: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 2**31 - 1
    controller_heart_beat_timeout_mills: Milliseconds = 10_000

    def __post_init__(self) -> None:
        """Check the addresses of slaves and controllers. Raises SettingsError."""
        _ = self.ha_networks
        if self.enable_controller_mode and not self.controllers:
            raise SettingsError(
                "enableControllerMode = true without a controller: set controllerAddr = host:port;host:port"
            )
        for address in self.controllers:
            parse_address(address)  # an illegal one would be asked for ever

    @property
    def is_slave(self) -> bool:
        """Whether the broker follows a master."""
        return self.broker_role is BrokerRole.SLAVE

    @property
    def may_be_read(self) -> bool:
        """Whether the broker answers pulls."""
        return not self.is_slave or self.slave_read_enable

    @property
    def awaited_acks(self) -> int:
        """How many slaves a send waits for."""
        return self.in_sync_replicas - 1 if self.broker_role is BrokerRole.SYNC_MASTER else 0

    @property
    def waits_for_slaves(self) -> bool:
        """Whether sends wait for slaves."""
        if self.enable_controller_mode and self.all_ack_in_sync_state_set:
            return not self.is_slave
        return self.awaited_acks > 0

    @property
    def controllers(self) -> tuple[str, ...]:
        """The addresses of the controllers, ``host:port`` each."""
        return tuple(address for part in self.controller_addr.split(";") if (address := part.strip()))

    @property
    def ha_networks(self) -> tuple[Network, ...]:
        """The networks in ``ha_allowed_addresses``. Raises SettingsError."""
        texts = [text for part in self.ha_allowed_addresses.split(",") if (text := part.strip())]
        try:
            return tuple(ipaddress.ip_network(text) for text in texts)
        except ValueError as error:
            raise SettingsError(
                f"haAllowedAddresses = {self.ha_allowed_addresses!r}: {error}; write addresses and networks "
                "as 10.0.0.7,10.0.1.0/24"
            ) from None
