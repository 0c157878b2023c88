"""Any messages as few requests: which may share a batch, and how much fits into one.

A batch goes to one queue of one topic. What is delayed or comes from a retry topic travels alone, as do
messages that find no company.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cometmq.client import outgoing
from cometmq.client.outgoing import Outgoing
from cometmq.format.layout import RETRY_PREFIX
from cometmq.message import Message, MessageQueue
from cometmq.wire.batch import SIZE_MIN

BATCH_BYTES: Final = 1 << 20
"""How much is put into one request: a quarter of what brokers take, as nothing gets faster beyond."""
UTF8_MAX: Final = 4
"""Most bytes of a character."""
BATCH_COUNT: Final = 4_096
"""The answer names each message of a batch by 33 bytes in its header."""


class Part(NamedTuple):
    """One request.

    Attributes:
        ready: what is sent.
        places: of its messages in what was packed.
        ids: unique ids of its messages.
    """

    ready: Outgoing
    places: list[int]
    ids: list[str]


class Lane(NamedTuple):
    """Parts that are sent one after the other, to keep their order; ``queue`` is None if any will do."""

    queue: MessageQueue | None
    parts: list[Part]


def pack(
    messages: Sequence[Message],
    queue_of: Callable[[Message], MessageQueue | None],
    new_id: Callable[[], str],
    *,
    batch_bytes: int = BATCH_BYTES,
    compress: Callable[[Message, str], Outgoing] = outgoing.one,
) -> list[Lane]:
    """Put messages into requests.

    Args:
        queue_of: gives the queue of a message that has to go to a certain one.
        compress: prepares a message that travels alone.

    Raises MessageIllegal or IllegalName if a message breaks a limit.
    """
    groups: dict[tuple[str, MessageQueue | None], list[int]] = {}
    alone: list[int] = []
    for place, message in enumerate(messages):
        if _travels_alone(message):
            alone.append(place)
        else:
            groups.setdefault((message.topic, queue_of(message)), []).append(place)

    def part(places: list[int]) -> Part:
        ids = [new_id() for _ in places]
        if len(places) == 1:
            return Part(compress(messages[places[0]], ids[0]), places, ids)
        return Part(outgoing.many([messages[place] for place in places], ids, new_id()), places, ids)

    lanes = [Lane(queue_of(messages[place]), [part([place])]) for place in alone]
    for (_topic, queue), places in groups.items():
        parts = [part(some) for some in _cut(messages, places, batch_bytes)]
        lanes += [Lane(None, [one]) for one in parts] if queue is None else [Lane(queue, parts)]
    return lanes


def may_wait(message: Message) -> bool:
    """Whether a message can share a batch with any others of its topic."""
    return message.sharding_key is None and not _travels_alone(message)


def _travels_alone(message: Message) -> bool:
    return message.delay_level > 0 or message.topic.startswith(RETRY_PREFIX)


def _cut(messages: Sequence[Message], places: list[int], batch_bytes: int) -> Iterator[list[int]]:
    """Cut a group where a batch is full."""
    some: list[int] = []
    size = 0
    for place in places:
        size_of_one = size_about(messages[place])
        if some and (size + size_of_one > batch_bytes or len(some) == BATCH_COUNT):
            yield some
            some, size = [], 0
        some.append(place)
        size += size_of_one
    yield some


def size_about(message: Message) -> int:
    """Give about what a message takes of a batch, rather too much than too little."""
    texts = [message.tags or "", message.sharding_key or "", *message.keys]
    for name, value in message.properties.items():
        texts += (name, value)
    size = sum(len(text) if text.isascii() else UTF8_MAX * len(text) for text in texts)
    return SIZE_MIN + len(message.body) + size + len(texts) + _OWN_PROPERTIES


_OWN_PROPERTIES: Final = 96
