"""What the parts of a broker share, and how a subscriber is declared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from fast_depends.dependencies import Dependant
from faststream._internal.configs import BrokerConfig
from faststream._internal.parser import CodecProto
from faststream._internal.types import CustomCallable
from faststream.middlewares import AckPolicy

from cometmq.client.handling.start import Start
from cometmq.faststream.groups import Connecting, GroupConsumers


@dataclass(kw_only=True)
class RocketMQBrokerConfig(BrokerConfig):
    """The configuration of a broker, or of a router, which has only the fields of its base class.

    Attributes:
        group: the consumer group of subscribers that name none.
    """

    group: str = ""
    consumers: GroupConsumers = field(default_factory=lambda: GroupConsumers(Connecting("127.0.0.1:9876")))


class SubscriberOptions(TypedDict, total=False):
    """How a subscriber is declared.

    ``group``: the consumer group, by default the broker's. ``tags``: ``*``, or tags joined by ``||``;
    ``sql``: a condition over the properties instead. ``ordered``: one message of a queue after the other.

    The subscribers of a group must agree in ``start``, where it begins without an offset; ``max_workers``,
    how many handlers run at a time; ``max_reconsume_times``, after how many retries a message becomes a dead
    letter; ``pop`` and ``broadcasting`` (see :class:`cometmq.Consumer`).

    The others are those of each FastStream broker. ``ack_policy`` is by default NACK_ON_ERROR: a message
    whose handler fails is delivered again.
    """

    group: str
    tags: str
    sql: str | None
    ordered: bool
    start: Start
    max_workers: int
    max_reconsume_times: int | None
    pop: bool
    broadcasting: bool
    ack_policy: AckPolicy
    no_reply: bool
    dependencies: Sequence[Dependant]
    parser: CustomCallable | None
    decoder: CustomCallable | None
    codec: CodecProto | None
    persistent: bool
    title: str | None
    description: str | None
    include_in_schema: bool


def check_names(options: Mapping[str, Any], known: type, where: str) -> None:
    """Check the names of options. Raises TypeError for one that is not known."""
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        raise TypeError(f"{where} has no option {unknown[0]!r}; it has {', '.join(known.__annotations__)}")
