"""Counters of messages in and out, by topic and group: read from what the statistics have counted."""

from typing import Final

from cometmq.broker.admin.statistics import Statistics
from cometmq.broker.metrics import families
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.topics import Topics, is_system_topic
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.metrics.family import HistogramValue, Values
from cometmq.store.reading import PAUSE, Reading
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.bodies.topic import TYPE_ATTRIBUTE

TURN_MAX: Final = 100
"""Number of topics, or of groups in topics, that one turn of the loop reads."""
SYSTEM_GROUP_PREFIX: Final = "cid_rmq_sys_"
SEND_MS_BOUNDS: Final = (1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0)
"""Bounds of the send times, as of RocketMQ's ``rocketmq_rpc_latency_milliseconds``."""

_TYPES: Final = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}


def read_traffic(values: Values, topics: Topics, statistics: Statistics) -> Reading[None]:
    """Read the counters of topics and groups. Retry topics do not count, dead letter topics by themselves."""
    for turn, topic in enumerate(list(topics)):
        if turn % TURN_MAX == TURN_MAX - 1:
            yield PAUSE
        name = topic.topic
        messages, size = statistics.put_totals(name)
        if not messages or name.startswith(RETRY_PREFIX):
            continue
        if name.startswith(DLQ_PREFIX):
            group = name.removeprefix(DLQ_PREFIX)
            values.set(families.TO_DLQ, messages, group, name, is_system(name, group))
            continue
        labels = name, _message_type(topic), is_system(name)
        values.set(families.MESSAGES_IN, messages, *labels)
        values.set(families.BYTES_IN, size, *labels)
    for turn, (name, group, messages, size) in enumerate(statistics.get_totals()):
        if turn % TURN_MAX == TURN_MAX - 1:
            yield PAUSE
        if not messages or name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        values.set(families.MESSAGES_OUT, messages, name, group, "false", is_system(name, group))
        values.set(families.BYTES_OUT, size, name, group, "false", is_system(name, group))


def add_rates(values: Values, rates: Rates) -> None:
    """Add the counts of the whole broker."""
    values.set(families.STORED, rates.stored.total)
    values.set(families.STORED_BYTES, rates.stored_bytes.total)
    values.set(families.DELIVERED, rates.delivered.total)
    values.set(families.REFUSED, rates.refused.total)
    values.set(families.PULLS, rates.found.total, "found")
    values.set(families.PULLS, rates.missed.total, "missed")
    ways = {
        "send": (rates.send_rows, None, rates.rare_sends),
        "pull": (rates.pull_rows, rates.pull_commands, rates.rare_pulls),
        "query": (rates.query_rows, rates.query_commands, rates.rare_queries),
        "ack": (rates.ack_rows, rates.ack_commands, None),
    }
    for kind, (rows, commands, rare) in ways.items():
        counts = {"compiled": rows["compiled"], "plain": rows["plain"], "command": commands, "rare": rare}
        for way, count in counts.items():
            if count is not None:
                values.set(families.REQUESTS, count, kind, way)
    values.buckets[families.SEND_MS] = _send_times(rates)


def is_system(topic: str, group: str = "") -> str:
    """Return the label ``is_system`` of a topic, and of a group in it."""
    return str(is_system_topic(topic) or group.lower().startswith(SYSTEM_GROUP_PREFIX)).lower()


def _message_type(topic: TopicConfig) -> str:
    """Return the type of message that a topic is declared for; a topic may hold other ones."""
    return _TYPES.get(topic.attributes.get(TYPE_ATTRIBUTE, ""), "normal")


def _send_times(rates: Rates) -> HistogramValue:
    counts = [0] * (len(SEND_MS_BOUNDS) + 1)
    total = 0
    for took_ms, count in rates.put_times.all().items():
        total += took_ms * count
        counts[next((at for at, bound in enumerate(SEND_MS_BOUNDS) if took_ms <= bound), -1)] += count
    return HistogramValue(SEND_MS_BOUNDS, tuple(counts), total)
