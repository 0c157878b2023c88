"""Queue offsets by queue, and their nested JSON form: topic → broker → queue id → queue offset.

::

    {"orders": {"broker-a": {"0": 17, "1": 4}, "broker-b": {"0": 9}}}

Spark compares offsets as texts and keeps them in checkpoints, so they are always written in the same order:
topics and brokers by name, queues by number. In options -2 stands for a queue's first message and -1 for
its end, as in Spark's Kafka source. Entries whose name begins with ``@`` are no offsets (``first_messages``).
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue

EARLIEST: Final = -2
LATEST: Final = -1
META_PREFIX: Final = "@"
"""Prefix of the names of entries that are no offsets."""

EACH_BROKER: Final = ""
"""As a broker's name: each broker that has the topic."""

Offsets: TypeAlias = dict[MessageQueue, int]
NestedOffsets: TypeAlias = dict[str, dict[str, dict[str, int]]]


def nested(offsets: Mapping[MessageQueue, int]) -> NestedOffsets:
    """Convert offsets to their nested form."""
    by_topic: NestedOffsets = {}
    for (topic, broker_name, queue_id), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {}).setdefault(broker_name, {})[str(queue_id)] = offset
    return by_topic


def read(what: str, value: Any) -> Offsets:
    """Convert nested offsets to offsets by queue. Raises SettingsError, naming ``what``, if malformed."""
    return {
        MessageQueue(topic, broker_name, _queue_id(what, queue_id)): _offset(what, offset)
        for topic, by_broker in _items(what, value)
        if not topic.startswith(META_PREFIX)
        for broker_name, by_queue in _items(what, by_broker)
        for queue_id, offset in _items(what, by_queue)
    }


def _items(what: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _refused(what, value)
    return list(value.items())


def _queue_id(what: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise _refused(what, text)
    return int(text)


def _offset(what: str, value: Any) -> int:
    if type(value) is not int or value < EARLIEST:
        raise _refused(what, value)
    return value


def _refused(what: str, value: Any) -> SettingsError:
    return SettingsError(
        f'{what}: {value!r} is malformed: write topics, brokers, queues, as {{"orders": {{"broker-a": '
        f'{{"0": 17}}}}}}, with queue offsets from 0 on, {EARLIEST} for the first or {LATEST} for the end'
    )
