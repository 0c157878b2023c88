"""All families of metrics of a broker: RocketMQ 5's by its names, types and labels, and our own.

RocketMQ's are those of ``BrokerMetricsConstant.java`` and its relatives, as a 5.5.0 broker shows them to
Prometheus. Where a value means something else here, because there it is wrong or a count of each message, the
page of metrics says so.
"""

from typing import Final

from cometmq.metrics.family import Family, FamilyKind

COUNTER, GAUGE = FamilyKind.COUNTER, FamilyKind.GAUGE
_STORAGE: Final = ("storage_type", "storage_medium")
_GROUP: Final = ("consumer_group", "topic", "is_retry", "is_system")
_IN: Final = ("topic", "message_type", "is_system")
_OUT: Final = ("topic", "consumer_group", "is_retry", "is_system")

PERMISSION: Final = Family(
    "rocketmq_broker_permission",
    GAUGE,
    (),
    "sum of 4 and 2",
    "whether the broker may be read (4) and written (2)",
)
TOPICS: Final = Family("rocketmq_topic_number", GAUGE, (), "topics", "topics, those of the system included")
GROUPS: Final = Family("rocketmq_consumer_group_number", GAUGE, (), "groups", "consumer groups with settings")
WATERMARK: Final = Family(
    "rocketmq_processor_watermark",
    GAUGE,
    ("processor",),
    "requests",
    "requests that wait, by the part that answers",
)
MESSAGES_IN: Final = Family(
    "rocketmq_messages_in_total",
    COUNTER,
    _IN,
    "messages",
    "messages that became readable in a topic; those of retry and dead letter topics do not count",
)
BYTES_IN: Final = Family(
    "rocketmq_throughput_in_total", COUNTER, _IN, "bytes", "bytes of these messages' records"
)
MESSAGES_OUT: Final = Family(
    "rocketmq_messages_out_total",
    COUNTER,
    _OUT,
    "messages",
    "messages that a group has pulled and its tags select",
)
BYTES_OUT: Final = Family(
    "rocketmq_throughput_out_total", COUNTER, _OUT, "bytes", "bytes of these messages' records"
)
TO_DLQ: Final = Family(
    "rocketmq_send_to_dlq_messages_total",
    COUNTER,
    ("consumer_group", "topic", "is_system"),
    "messages",
    "messages that became a group's dead letters",
)
PRODUCERS: Final = Family(
    "rocketmq_producer_connections",
    GAUGE,
    ("language", "version", "protocol_type"),
    "members",
    "members of all producer groups",
)
CONSUMERS: Final = Family(
    "rocketmq_consumer_connections",
    GAUGE,
    ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
    "members",
    "members of a consumer group",
)
LAG: Final = Family(
    "rocketmq_consumer_lag_messages", GAUGE, _GROUP, "messages", "messages that a group has not consumed yet"
)
LAG_MS: Final = Family(
    "rocketmq_consumer_lag_latency_milliseconds",
    GAUGE,
    _GROUP,
    "ms",
    "age of the oldest message that a group has not consumed; 0 if there is none",
    is_latest=True,
)
IN_FLIGHT: Final = Family(
    "rocketmq_consumer_inflight_messages",
    GAUGE,
    _GROUP,
    "messages",
    "messages that a group has got and not consumed yet",
)
READY: Final = Family(
    "rocketmq_consumer_ready_messages", GAUGE, _GROUP, "messages", "messages that a group has not got yet"
)
QUEUEING_MS: Final = Family(
    "rocketmq_consumer_queueing_latency_milliseconds",
    GAUGE,
    _GROUP,
    "ms",
    "age of the oldest message that a group has not got; 0 if there is none",
    is_latest=True,
)
SIZE: Final = Family(
    "rocketmq_storage_size_bytes", GAUGE, _STORAGE, "bytes", "bytes of the CommitLog that are kept"
)
FLUSH_BEHIND: Final = Family(
    "rocketmq_storage_flush_behind_bytes",
    GAUGE,
    _STORAGE,
    "bytes",
    "bytes of the CommitLog not on the disk yet",
)
DISPATCH_BEHIND: Final = Family(
    "rocketmq_storage_dispatch_behind_bytes",
    GAUGE,
    _STORAGE,
    "bytes",
    "bytes of the CommitLog that may be read, and are in no queue yet",
)
RESERVE_MS: Final = Family(
    "rocketmq_storage_message_reserve_time_milliseconds",
    GAUGE,
    _STORAGE,
    "ms",
    "age of the oldest message; no series while there is none",
    is_latest=True,
)
TIMER_BEHIND: Final = Family(
    "rocketmq_timer_enqueue_lag", GAUGE, _STORAGE, "messages", "timed messages that are not in the wheel yet"
)
TIMER_WAITING: Final = Family(
    "rocketmq_timer_dequeue_lag", GAUGE, _STORAGE, "messages", "timed messages that wait in the wheel"
)
TIMER_LATE_MS: Final = Family(
    "rocketmq_timer_dequeue_latency_milliseconds",
    GAUGE,
    _STORAGE,
    "ms",
    "how long the next timed message is due already; 0 if none is",
    is_latest=True,
)
REVIVE_BEHIND: Final = Family(
    "rocketmq_pop_revive_lag_milliseconds",
    GAUGE,
    ("queue_id",),
    "messages",
    "messages of a revive queue that are not read yet: a count, whatever the name says",
)

STORED: Final = Family("cometmq_messages_stored_total", COUNTER, (), "messages", "messages that were stored")
STORED_BYTES: Final = Family(
    "cometmq_stored_bytes_total", COUNTER, (), "bytes", "bytes of these messages' records"
)
DELIVERED: Final = Family(
    "cometmq_messages_delivered_total", COUNTER, (), "messages", "messages sent to consumers that pull or pop"
)
REFUSED: Final = Family(
    "cometmq_messages_refused_total", COUNTER, (), "messages", "messages that could not be stored"
)
PULLS: Final = Family(
    "cometmq_pulls_total", COUNTER, ("result",), "requests", "pulls by their result: found or missed"
)
REQUESTS: Final = Family(
    "cometmq_requests_total",
    COUNTER,
    ("kind", "way"),
    "requests",
    "sends, pulls, queries and acknowledgements by the way they took: compiled, plain, command or rare",
)
SEND_MS: Final = Family(
    "cometmq_send_latency_milliseconds",
    FamilyKind.HISTOGRAM,
    (),
    "ms",
    "time of a message's send, from its arrival to its answer; above 10 s counts as 10,001 ms in the sum",
)
CONNECTIONS: Final = Family("cometmq_connections", GAUGE, (), "connections", "open connections")
CONNECTIONS_MAX: Final = Family(
    "cometmq_connections_max",
    GAUGE,
    (),
    "connections",
    "limit of open connections; no series if there is none",
)
CONNECTIONS_REFUSED: Final = Family(
    "cometmq_connections_refused_total",
    COUNTER,
    (),
    "connections",
    "connections closed at once: too many were open",
)
OFFSETS: Final = Family(
    "cometmq_commitlog_offset_bytes",
    GAUGE,
    ("pointer",),
    "bytes",
    "pointers of the CommitLog: begin, written, committed, flushed, confirmed, dispatched",
)
SYNCS: Final = Family("cometmq_commitlog_syncs_total", COUNTER, (), "syncs", "syncs of the CommitLog's files")
DISK: Final = Family(
    "cometmq_disk_bytes", GAUGE, ("state",), "bytes", "used and usable space of the store's file system"
)
WRITABLE: Final = Family("cometmq_store_writable", GAUGE, (), "0 or 1", "whether the store takes messages")
FAILED_WRITES: Final = Family(
    "cometmq_store_failed_writes", GAUGE, (), "places", "places of the store in which writes fail now"
)
NAME_SERVERS: Final = Family(
    "cometmq_name_servers",
    GAUGE,
    ("state",),
    "servers",
    "name servers: configured, and those that know this broker",
)
SLAVES: Final = Family(
    "cometmq_replication_slaves", GAUGE, ("state",), "slaves", "slaves of a master: connected, in_sync"
)
SLAVE_BEHIND: Final = Family(
    "cometmq_replication_behind_bytes",
    GAUGE,
    ("slave",),
    "bytes",
    "bytes of a master's log that a slave, by the address of its connection, has not acknowledged",
)
SLAVE_BEHIND_S: Final = Family(
    "cometmq_replication_behind_seconds",
    GAUGE,
    ("slave",),
    "seconds",
    "how long what a slave has not acknowledged takes at the rate of the last second; +Inf while nothing is "
    "sent to it",
)
MASTER_CONNECTED: Final = Family(
    "cometmq_replication_master_connected",
    GAUGE,
    (),
    "0 or 1",
    "whether a slave is connected to its master",
)

FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All families, in this order."""
