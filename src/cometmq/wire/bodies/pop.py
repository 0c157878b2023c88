"""BATCH_ACK_MESSAGE, QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE: the bodies of pop consumption.

RocketMQ: ``BatchAckMessageRequestBody.java``, ``BatchAck.java``, ``QueryAssignmentRequestBody.java``,
``QueryAssignmentResponseBody.java``, ``SetMessageRequestModeRequestBody.java``,
``MessageRequestModeManager.java``.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import field

from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body
from cometmq.wire.bodies.heartbeat import MessageModel
from cometmq.wire.headers.fields import Int, Long

_SHORT_NAMES: Final = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}
"""The names of an entry's members that are read besides those that are written."""


class BatchAckEntry(Body):
    """The acknowledged messages of one check point.

    Attributes:
        topic: the topic, not its retry topic: see ``retry``.
        retry: the retry flag: ``0``, ``1`` or ``2``.
        start_offset: queue offset at which the check point begins.
        pop_time: ms since the epoch.
        invisible_time: ms.
        bit_set: distances of the offsets from ``start_offset``: see :mod:`cometmq.format.pop.bit_set`.
    """

    consumer_group: str = field(name="c")
    topic: str = field(name="t")
    retry: str = field(name="r")
    start_offset: Long = field(name="so")
    queue_id: Int = field(name="q")
    revive_queue_id: Int = field(name="rq")
    pop_time: Long = field(name="pt")
    invisible_time: Long = field(name="it")
    bit_set: str = field(name="b")


class BatchAckRequest(Body):
    """Acknowledgements of messages of several check points."""

    broker_name: str | None = None
    acks: list[BatchAckEntry] = field(default_factory=list)

    @classmethod
    def loosen(cls, members: dict[Any, Any]) -> None:
        """Rename the members of entries that have RocketMQ's long names."""
        entries = members.get("acks")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                for long_name in _SHORT_NAMES.keys() & entry.keys():
                    entry.setdefault(_SHORT_NAMES[long_name], entry.pop(long_name))


class RequestMode(StrEnum):
    """How the members of a group get the messages of a topic."""

    PULL = "PULL"
    POP = "POP"


class AssignmentRequest(Body):
    """A client asks which queues it reads.

    Attributes:
        strategy: ``AVG`` or ``AVG_BY_CIRCLE``.
    """

    topic: str
    consumer_group: str
    client_id: str
    strategy: str | None = field(default=None, name="strategyName")
    message_model: MessageModel = MessageModel.CLUSTERING


class QueueAssignment(Body):
    """A queue that a client reads, and how; with queue id -1 it pops all queues of the broker."""

    queue: MessageQueue = field(name="messageQueue")
    mode: RequestMode = RequestMode.PULL
    attachments: dict[str, str] | None = None


class AssignmentResponse(Body):
    """The queues that a client reads; None if it keeps those that it has."""

    assignments: list[QueueAssignment] | None = field(default=None, name="messageQueueAssignments")


class MessageModeRequest(Body):
    """How a group gets the messages of a topic.

    Attributes:
        pop_share_queue_count: of how many of the next clients one that pops reads the queues besides its own;
            0 or less: all read all queues.
    """

    topic: str
    consumer_group: str
    mode: RequestMode = RequestMode.PULL
    pop_share_queue_count: Int = field(default=0, name="popShareQueueNum")


class MessageModes(Body):
    """GET_ALL_MESSAGE_REQUEST_MODE, and the file ``messageRequestMode.json``.

    Attributes:
        modes: by topic and group.
    """

    modes: dict[str, dict[str, MessageModeRequest]] = field(
        default_factory=dict, name="messageRequestModeMap"
    )
