"""Queue offsets by queue, and how they are written down: topic → broker → queue id → queue offset.

::

    {"orders": {"broker-a": {"0": 17, "1": 4}, "broker-b": {"0": 9}}}

Spark compares offsets as texts and keeps them in checkpoints, so they are always written in the same order:
topics and brokers by name, queues by number. In options -2 stands for a queue's first message and -1 for
its end, as in Spark's Kafka source. What stands under a name that begins with ``@`` is none of the offsets
(``first_messages``).
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue

EARLIEST: Final = -2
LATEST: Final = -1
APART: Final = "@"
"""How the names begin under which something else than offsets is written."""

EACH_BROKER: Final = ""
"""In place of a broker's name: each broker that has the topic."""

Offsets: TypeAlias = dict[MessageQueue, int]
Written: TypeAlias = dict[str, dict[str, dict[str, int]]]


def written(offsets: Mapping[MessageQueue, int]) -> Written:
    """Write offsets down."""
    nested: Written = {}
    for (topic, broker_name, queue_id), offset in sorted(offsets.items()):
        nested.setdefault(topic, {}).setdefault(broker_name, {})[str(queue_id)] = offset
    return nested


def read(what: str, value: Any) -> Offsets:
    """Read what ``written`` gives. Raises SettingsError, naming ``what``, for anything else."""
    return {
        MessageQueue(topic, broker_name, _queue_id(what, queue_id)): _offset(what, offset)
        for topic, by_broker in _items(what, value)
        if not topic.startswith(APART)
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
        f'{what}: {value!r} cannot be: write topics, brokers, queues, as {{"orders": {{"broker-a": '
        f'{{"0": 17}}}}}}, with queue offsets from 0 on, {EARLIEST} for the first or {LATEST} for the end'
    )
