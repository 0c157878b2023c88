"""The settings of a broker by subject, so that a part depends on those of its own subject only.

Names and defaults are RocketMQ's (``BrokerConfig``, ``NettyServerConfig``); sizes in bytes, intervals in ms.
``BrokerSettings`` has all of them; a setting's group is known in code only, never in a file.
"""

import socket
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from cometmq.errors import SettingsError
from cometmq.metrics.labels import labels_of
from cometmq.metrics.limits import LIMITS as ENDPOINT_LIMITS
from cometmq.metrics.limits import EndpointLimits
from cometmq.net.flow import (
    HIGH_WATER,
    LOW_WATER,
    TURN_MAX,
    UNFINISHED_TOTAL_MAX,
    UNHANDLED_MAX,
    UNHANDLED_TOTAL_MAX,
    UNSENT_MAX,
    FlowLimits,
)
from cometmq.settings.values import SettingsGroup
from cometmq.wire.bodies import BodyLimits, RequestMode
from cometmq.wire.bodies.body import LIMITS
from cometmq.wire.frame import FRAME_LENGTH_MAX

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1, le=10_000)]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]
Size = Annotated[int, Meta(ge=1024, le=2**31 - 1)]
BodySize = Annotated[int, Meta(ge=1024, le=FRAME_LENGTH_MAX)]


class MetricsExporter(StrEnum):
    """How metrics leave a broker: not at all, or scraped by Prometheus."""

    DISABLE = "DISABLE"
    PROM = "PROM"


class IdentitySettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """What a broker is called.

    Attributes:
        broker_name: the broker's name for name servers and in queues.
        broker_cluster_name: the cluster of the broker.
        broker_id: 0 for a master; above 0 for a slave (``broker_role``), another number for each. Under a
            controller it has no effect, and may be -1, as in RocketMQ's examples.
    """

    broker_name: Annotated[str, Meta(min_length=1, max_length=127)] = msgspec.field(
        default_factory=socket.gethostname
    )
    broker_cluster_name: Annotated[str, Meta(min_length=1, max_length=127)] = "DefaultCluster"
    broker_id: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = 0


class NetworkSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Where a broker listens, where others find it, and the name servers that tell them.

    Attributes:
        broker_ip: the address that clients connect to; by default the one that name servers see.
        broker_ha_ip: the address that slaves connect to, if it is another; the broker must listen there, for
            instance by ``bind_address`` 0.0.0.0.
        bind_address: the address to listen at; other machines reach any but loopback, so that needs
            ``authentication_enabled``, or ``insecure``.
        listen_port: the port to listen at; 0 for any free one.
        vip_channel_enable: whether to listen at ``listen_port - 2`` too, where the dashboard and clients up
            to 4.4 connect first; if that port is in use the broker starts without. A Java broker always
            listens there.
        namesrv_addr: the name servers to register with, ``host:port;host:port``.
    """

    broker_ip: str | None = msgspec.field(default=None, name="brokerIP1")
    broker_ha_ip: str | None = msgspec.field(default=None, name="brokerIP2")
    bind_address: str = "127.0.0.1"
    listen_port: Port = 10911
    vip_channel_enable: bool = True
    namesrv_addr: str = ""

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of the name servers, ``host:port`` each."""
        return tuple(address for part in self.namesrv_addr.split(";") if (address := part.strip()))


class TopicSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """What topics and groups there are at first, and who creates others.

    Attributes:
        default_topic_queue_nums: queues of the topic ``TBW102``, the pattern of auto-created topics.
        auto_create_topic_enable: whether a send may create its topic.
        auto_create_subscription_group: whether heartbeats, pulls and messages sent back may create groups.
        cluster_topic_enable: whether the topic named like the cluster is a pattern too.
        broker_topic_enable: whether the topic named like the broker is a pattern too.
    """

    default_topic_queue_nums: Count = 8
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True


class PullSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """How pulls are answered.

    Attributes:
        long_polling_enable: whether pulls are held for the time that they request.
        short_polling_time_mills: how long pulls are held without ``long_polling_enable``.
        lite_pull_message_enable: whether LITE_PULL_MESSAGE is answered.
    """

    long_polling_enable: bool = True
    short_polling_time_mills: Milliseconds = 1_000
    lite_pull_message_enable: bool = True

    @property
    def short_polling_ms(self) -> int | None:
        """How long pulls are held; None for as long as they ask for."""
        return None if self.long_polling_enable else self.short_polling_time_mills


class FilterSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Filters of consumers.

    Attributes:
        enable_property_filter: whether consumers may filter by SQL92.
        filter_support_retry: whether messages of a retry topic are filtered by the group's filter on their
            original topic.
        enable_calc_filter_bit_map: whether a bitmap of the filters that a message passes is stored with it,
            in the store's extended queues (``enableConsumeQueueExt``).
        expect_consumer_num_use_filter: groups with filters on a topic for which the bitmaps are sized.
        max_error_rate_of_bloom_filter: highest error rate of these bitmaps, in percent.
        filter_data_clean_time_span: how long the filter of a group without members is kept.
    """

    enable_property_filter: bool = False
    filter_support_retry: bool = False
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: Count = 32
    max_error_rate_of_bloom_filter: Annotated[int, Meta(ge=1, le=99)] = 20
    filter_data_clean_time_span: Annotated[int, Meta(ge=0)] = 24 * 3_600_000


class IdempotenceSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Which messages are stored once only.

    Attributes:
        idempotence_window_ms: for how long a message with the same IDEMPOTENCE_KEY as one of its topic is not
            stored; 0 for not at all. Not RocketMQ's, as are the next two.
        idempotence_keys_max: most keys that are held; each takes 200 bytes of memory.
        idempotence_read_back_bytes: bytes at the log's end that are searched for keys when the broker starts;
            it takes a second if they are full of keys.
    """

    idempotence_window_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 600_000
    idempotence_keys_max: Annotated[int, Meta(ge=2, le=100_000_000)] = 500_000
    idempotence_read_back_bytes: Annotated[int, Meta(ge=0)] = 32 * 1024 * 1024


class RecallSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Who may recall timed messages.

    Attributes:
        recall_message_enable: whether producers may recall timed messages.
        allow_recall_when_broker_not_writeable: whether they may even if ``broker_permission`` has no write.
    """

    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True


class AssignmentSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """How clients that ask for their queues share them.

    Attributes:
        server_load_balancer_enable: whether clients that ask for their queues share them; else each has all.
        default_message_request_mode: whether groups PULL or POP messages, if they ask and nothing was set.
        default_pop_share_queue_num: of how many members after it a member then pops the queues, too; -1: all.
        load_balance_poll_name_server_interval: age from which a route, by which they share queues, is queried
            again.
    """

    server_load_balancer_enable: bool = True
    default_message_request_mode: RequestMode = RequestMode.PULL
    default_pop_share_queue_num: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = -1
    load_balance_poll_name_server_interval: Milliseconds = 30_000


class PopSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Pops, and what comes back of them.

    Attributes:
        revive_queue_num: queues of the topic in which check points and acknowledgements of pops come due.
        enable_retry_topic_v2: whether the retry topics of pops have the newer names, with a plus between the
            group and the topic.
        retrieve_message_from_pop_retry_topic_v1: whether those of the older names are read then, too.
        pop_from_retry_probability: percent of the pops that read the group's retry topic first.
        pop_response_return_actual_retry_topic: whether messages of it are delivered under its name, not under
            that of the topic that was popped.
        init_pop_offset_by_check_msg_in_mem: whether a new group that begins at a queue's end gets the whole
            queue if its first message counts as being in memory.
        enable_pop_message_threshold: whether a queue of which a group holds too many messages is skipped.
        pop_inflight_message_threshold: how many messages that is.
        use_separate_retry_queue: whether popped messages that come back keep their queue id, and their retry
            topic has as many queues as the topic; otherwise it has one.
        pop_polling_size: most pops that wait at one queue for one group; more are answered at once.
        max_pop_polling_size: most that wait in all.
        pop_long_polling_force_notify_interval: a message whose queue offset is a multiple of this wakes a pop
            that does not want its tag.
        clear_retry_topic_when_delete_topic: whether the retry topics of pops are deleted with their topic.
    """

    revive_queue_num: Annotated[int, Meta(ge=1, le=998)] = 8
    enable_retry_topic_v2: bool = False
    retrieve_message_from_pop_retry_topic_v1: bool = True
    pop_from_retry_probability: Annotated[int, Meta(ge=0, le=100)] = 20
    pop_response_return_actual_retry_topic: bool = False
    init_pop_offset_by_check_msg_in_mem: bool = True
    enable_pop_message_threshold: bool = False
    pop_inflight_message_threshold: Annotated[int, Meta(ge=1)] = 10_000
    use_separate_retry_queue: bool = False
    pop_polling_size: Annotated[int, Meta(ge=1)] = 1_024
    max_pop_polling_size: Annotated[int, Meta(ge=1)] = 100_000
    pop_long_polling_force_notify_interval: Annotated[int, Meta(ge=0)] = 800
    clear_retry_topic_when_delete_topic: bool = True


class TransactionSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Messages in transactions.

    Attributes:
        reject_transaction_message: whether messages in transactions are refused.
        transaction_time_out: age of a half message from which its producer is asked for it.
        transaction_check_interval: interval of such checks.
        transaction_check_max: most checks of a half message, before it is given up.
        transaction_op_msg_max_size: bytes from which a message that ends half messages is full.
    """

    reject_transaction_message: bool = False
    transaction_time_out: Milliseconds = 6_000
    transaction_check_interval: Milliseconds = 30_000
    transaction_check_max: Count = 15
    transaction_op_msg_max_size: Annotated[int, Meta(ge=1, le=4_194_304)] = 4_096


class RegistrationSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Registrations with the name servers.

    Attributes:
        register_name_server_period: interval of registrations.
        register_broker_timeout_mills: timeout of a registration.
    """

    register_name_server_period: Annotated[int, Meta(ge=10_000, le=60_000)] = 30_000
    register_broker_timeout_mills: Milliseconds = 24_000


class OverloadSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Which sends are refused when there are too many.

    Attributes:
        broker_fast_failure_enable: whether sends are refused that have waited too long to be handled.
        wait_time_mills_in_send_queue: the wait after which such sends are refused.
        send_thread_pool_queue_capacity: most sends that wait for the disk; more are refused. Not RocketMQ's
            10,000, which its threads empty without waiting for the disk.
    """

    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: Milliseconds = 200
    send_thread_pool_queue_capacity: Annotated[int, Meta(ge=1)] = 100_000


class FlowSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Bytes of connections: unread answers, and what is not handled yet.

    Attributes:
        write_buffer_high_water_mark: unread response bytes from which a peer is neither read nor sent more; 0
            for the default, as for the next one.
        write_buffer_low_water_mark: unread response bytes at which it is read and sent more again.
        unsent_bytes_max: unread response bytes beyond which a peer loses its connection.
        unhandled_bytes_max: unhandled bytes from which a connection is not read.
        unhandled_bytes_total_max: unhandled bytes of all connections from which none is read.
        turn_bytes_max: unhandled bytes beyond which each connection has an equal share handled in a turn.
        unfinished_bytes_total_max: most bytes of all frames that are arriving; further frames wait.
        early_bytes_total_max: most bytes of sends that wait for new topics to be saved; more are refused.
    """

    write_buffer_high_water_mark: Annotated[int, Meta(ge=0, le=2**31 - 1)] = HIGH_WATER
    write_buffer_low_water_mark: Annotated[int, Meta(ge=0, le=2**31 - 1)] = LOW_WATER
    unsent_bytes_max: Size = UNSENT_MAX
    unhandled_bytes_max: Size = UNHANDLED_MAX
    unhandled_bytes_total_max: Size = UNHANDLED_TOTAL_MAX
    turn_bytes_max: Size = TURN_MAX
    unfinished_bytes_total_max: Size = UNFINISHED_TOTAL_MAX
    early_bytes_total_max: Size = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check settings that limit each other. Raises SettingsError."""
        low, high, most, *_ = self.limits
        if not low <= high <= most:
            raise SettingsError(
                f"writeBufferLowWaterMark = {low}, writeBufferHighWaterMark = {high}, unsentBytesMax = "
                f"{most}: none may be more than the next"
            )

    @property
    def limits(self) -> FlowLimits:
        """The byte limits of the broker's connections."""
        return FlowLimits(
            self.write_buffer_low_water_mark or LOW_WATER,
            self.write_buffer_high_water_mark or HIGH_WATER,
            self.unsent_bytes_max,
            self.unhandled_bytes_max,
            self.unhandled_bytes_total_max,
            self.turn_bytes_max,
            self.unfinished_bytes_total_max,
        )


class BodySettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Bodies of requests.

    Attributes:
        request_body_bytes_max: most bytes of a request's body other than a message; with larger limits a
            single request can delay all others for longer.
        request_list_bytes_max: most bytes of a heartbeat or a list of topics.
        request_list_items_max: most groups, subscriptions of a group, or topics in these.
        topic_queues_max: most queues that a request may give a topic, to read and to write each.
        nonstandard_body_bytes_max: most bytes of a body that is not standard JSON.
    """

    request_body_bytes_max: BodySize = LIMITS.usual_bytes
    request_list_bytes_max: BodySize = LIMITS.list_bytes
    request_list_items_max: Annotated[int, Meta(ge=1, le=1_000_000)] = LIMITS.list_items
    topic_queues_max: Annotated[int, Meta(ge=1, le=LIMITS.topic_queues)] = LIMITS.topic_queues
    nonstandard_body_bytes_max: BodySize = LIMITS.nonstandard_bytes

    @property
    def limits(self) -> BodyLimits:
        """The limits of requests' bodies."""
        return BodyLimits(
            self.request_body_bytes_max,
            self.request_list_bytes_max,
            self.request_list_items_max,
            self.nonstandard_body_bytes_max,
            topic_queues=self.topic_queues_max,
        )


class ClientSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Clients that are silent.

    Attributes:
        channel_expired_timeout: silence after the last heartbeat of a client from which it counts as gone.
        subscription_expired_timeout: how long the subscriptions of a group without members are kept.
    """

    channel_expired_timeout: Milliseconds = 120_000
    subscription_expired_timeout: Milliseconds = 600_000


class MetricsSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Metrics, and the port that serves them.

    Attributes:
        metrics_exporter_type: ``PROM`` serves ``/metrics``, ``/healthz`` and ``/readyz`` over HTTP, for which
            the extra ``metrics`` must be installed; ``DISABLE`` does not. RocketMQ's others are not there.
        metrics_prom_exporter_port: the port for that; 0 for any free one.
        metrics_prom_exporter_host: the address for that; whoever reaches it needs no password. RocketMQ's is
            ``brokerIP1``.
        metrics_connections_max: most connections at that port; one more closes the oldest that waits for its
            peer, or is closed itself if there is none.
        metrics_waiting_max: such connections of an IP address on which no whole request has come, or whose
            answer was not taken, before the oldest is closed; 0 for any number.
        metrics_scrapes_max: most scrapes that wait at a time; of more the oldest of one address is closed.
        metrics_request_timeout_ms: ms that a whole request may take, and that taking its answer may.
        metrics_label: more labels of all metrics, ``name:value,name:value``.
        metrics_otel_cardinality_limit: most series of one metric; the others become one. Not RocketMQ's
            50,000.
    """

    metrics_exporter_type: MetricsExporter = MetricsExporter.DISABLE
    metrics_prom_exporter_port: Port = 5557
    metrics_prom_exporter_host: str = "127.0.0.1"
    metrics_connections_max: Annotated[int, Meta(ge=1, le=65_536)] = ENDPOINT_LIMITS.connections_max
    metrics_waiting_max: Annotated[int, Meta(ge=0)] = ENDPOINT_LIMITS.waiting_max
    metrics_scrapes_max: Annotated[int, Meta(ge=1, le=1_024)] = ENDPOINT_LIMITS.scrapes_max
    metrics_request_timeout_ms: Milliseconds = ENDPOINT_LIMITS.request_ms_max
    metrics_label: str = ""
    metrics_otel_cardinality_limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000

    def __post_init__(self) -> None:
        """Check the labels. Raises SettingsError."""
        _ = self.labels

    @property
    def limits(self) -> EndpointLimits:
        """The limits of the port of metrics."""
        return EndpointLimits(
            self.metrics_connections_max,
            self.metrics_waiting_max,
            self.metrics_scrapes_max,
            self.metrics_request_timeout_ms,
            are_settings=True,
        )

    @property
    def labels(self) -> dict[str, str]:
        """The labels in ``metrics_label``."""
        return labels_of(self.metrics_label)
