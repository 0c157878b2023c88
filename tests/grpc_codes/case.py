"""A call of an rpc, and the code that the proxy answers."""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from google.protobuf.message_factory import GetMessageClass

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.transport import METHODS

NORMAL: Final = "CodesNormal"
FIFO: Final = "CodesFifo"
DELAY: Final = "CodesDelay"
TRANSACTION: Final = "CodesTransaction"
READ_ONLY: Final = "CodesReadOnly"
WRITE_ONLY: Final = "CodesWriteOnly"
EMPTY: Final = "CodesEmpty"
UNKNOWN: Final = "CodesUnknown"
"""The topics of the calls; all but the last exist."""

ILLEGAL_TOPICS: Final = {
    "a blank topic": "",
    "a topic of 128 characters": "t" * 128,
    "a topic with a dot": "a.b",
    "a system topic": "TBW102",
}
ILLEGAL_GROUPS: Final = {
    "a blank group": "",
    "a group of 121 characters": "g" * 121,
    "a group with a dot": "a.b",
    "a system group": "CID_RMQ_SYS_x",
}
UNSERVED: Final = "SyncLiteSubscription"
TIMEOUT_S: Final = 120.0


class Caller(Enum):
    """Who calls."""

    CONSUMER = "consumer"
    """A simple consumer that has sent its settings."""
    PRODUCER = "producer"
    """A producer that has sent its settings, and calls nothing else."""
    LEAVER = "leaver"
    """Another one."""
    NEWCOMER = "newcomer"
    """A client that sends its settings by the call."""
    STRANGER = "stranger"
    """A client that has sent no settings."""
    NOBODY = ""
    """A client without an id."""


class World(NamedTuple):
    """What calls can name at one proxy.

    Attributes:
        broker_name: the broker that has the topics.
        group: the consumer group of this proxy's clients, which exists.
        ordered_group: another one, which is ordered.
        receipts: handles of messages that were received from ``NORMAL``.
        halves: the transaction ids of half messages of ``TRANSACTION``.
        recall: the handle to recall a message of ``DELAY``.
        now_s: the time, in seconds since the epoch.
    """

    broker_name: str
    group: str
    ordered_group: str
    receipts: Iterator[str]
    halves: Iterator[str]
    recall: str
    now_s: int


class Case(NamedTuple):
    """A call.

    Attributes:
        note: what is special about it.
        outcome: the name of the code that our proxy answers; after ``gRPC``, that of a status of gRPC.
        request: the request, or what makes it of what is at the proxy.
        timeout_s: how long the client waits.
        waits: whether the answer comes when a long poll ends.
    """

    rpc: str
    note: str
    outcome: str
    request: Any
    caller: Caller = Caller.CONSUMER
    timeout_s: float = TIMEOUT_S
    waits: bool = False

    def __str__(self) -> str:
        return f"{self.rpc}: {self.note}"

    @property
    def is_urgent(self) -> bool:
        """Whether the client waits so shortly that a slow machine may miss its deadline."""
        return self.timeout_s < TIMEOUT_S

    def made(self, world: World) -> Any:
        """Return the request."""
        return self.request(world) if callable(self.request) else self.request


def resource(name: str) -> pb.Resource:
    """Return what names a topic or a group."""
    return pb.Resource(name=name)


def names_of(topic: str = NORMAL, group: str = "") -> Mapping[str, pb.Resource]:
    """Return the fields of requests that name a group and a topic."""
    return {"topic": resource(topic), "group": resource(group)}


def with_illegal_topics(rpc: str, request: Callable[[World, str], Any]) -> Iterator[Case]:
    """Iterate over calls with topics that no client may use, by what makes a request of a topic."""
    yield from _with_each(rpc, "ILLEGAL_TOPIC", ILLEGAL_TOPICS, request)


def with_illegal_groups(rpc: str, request: Callable[[World, str], Any]) -> Iterator[Case]:
    """Iterate over calls with groups that no client may use, by what makes a request of a group."""
    yield from _with_each(rpc, "ILLEGAL_CONSUMER_GROUP", ILLEGAL_GROUPS, request)


def _with_each(
    rpc: str, outcome: str, texts: Mapping[str, str], request: Callable[[World, str], Any]
) -> Iterator[Case]:
    for note, text in texts.items():
        yield Case(rpc, note, outcome, lambda world, text=text: request(world, text))


def without_client_id() -> Iterator[Case]:
    """Iterate over calls of the rpcs that do not say who calls."""
    for rpc in sorted(METHODS.keys() - {UNSERVED}):
        request = GetMessageClass(METHODS[rpc].input_type)()
        if rpc == "Telemetry":
            request = pb.TelemetryCommand(settings=pb.Settings())
        yield Case(rpc, "no client id", "CLIENT_ID_REQUIRED", request, Caller.NOBODY)
