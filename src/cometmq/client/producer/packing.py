"""Any messages as few requests: which may share a batch, and how much fits into one.

A batch goes to one queue of one topic. What is delayed or comes from a retry topic travels alone, as do
messages that find no company.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cometmq.client.producer import outgoing
from cometmq.client.producer.outgoing import Outgoing
from cometmq.format.layout import RETRY_PREFIX
from cometmq.message import Message, MessageQueue

BATCH_BYTES: Final = 1 << 20
"""How much is put into one request: a quarter of what brokers take, as nothing gets faster beyond."""
BATCH_COUNT: Final = 4_096
"""The answer names each message of a batch by 33 bytes in its header."""


class PackedRequest(NamedTuple):
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
    parts: list[PackedRequest]


def pack(
    messages: Sequence[Message],
    queue_of: Callable[[Message], MessageQueue | None] | None,
    new_ids: Callable[[int], list[str]],
    *,
    batch_bytes: int = BATCH_BYTES,
    compress: Callable[[Message, str], Outgoing] = outgoing.one,
) -> list[Lane]:
    """Put messages into requests.

    Args:
        queue_of: gives the queue of a message that has to go to a certain one; None if any will do for all.
        new_ids: makes some unique ids.
        compress: prepares a message that travels alone.

    Raises MessageIllegal or IllegalName if a message breaks a limit.
    """
    groups: defaultdict[tuple[str, MessageQueue | None], list[int]] = defaultdict(list)
    alone: list[int] = []
    for place, message in enumerate(messages):
        if _travels_alone(message):
            alone.append(place)
        else:
            groups[message.topic, queue_of and queue_of(message)].append(place)

    def single(place: int, unique_id: str) -> PackedRequest:
        return PackedRequest(compress(messages[place], unique_id), [place], [unique_id])

    def batch_of(topic: str, some: list[int], ids: list[str], members: list[bytes]) -> Outgoing:
        key = outgoing.common_idempotence_key(messages[place] for place in some)
        return outgoing.together(topic, members, ids, new_ids(1)[0], key)

    lanes = [
        Lane(queue_of and queue_of(messages[place]), [single(place, unique_id)])
        for place, unique_id in zip(alone, new_ids(len(alone)), strict=True)
    ]
    for (topic, queue), places in groups.items():
        parts = [
            single(some[0], ids[0])
            if len(some) == 1
            else PackedRequest(batch_of(topic, some, ids, members), some, ids)
            for some, ids, members in _cut(messages, places, new_ids, batch_bytes)
        ]
        lanes += [Lane(None, [one]) for one in parts] if queue is None else [Lane(queue, parts)]
    return lanes


def may_wait(message: Message) -> bool:
    """Whether a message can share a batch with any others of its topic."""
    return outgoing.queue_key(message) is None and not _travels_alone(message)


def _travels_alone(message: Message) -> bool:
    return message.is_delayed or message.topic.startswith(RETRY_PREFIX)


def _cut(
    messages: Sequence[Message], places: list[int], new_ids: Callable[[int], list[str]], batch_bytes: int
) -> Iterator[tuple[list[int], list[str], list[bytes]]]:
    """Cut a group where a batch is full: gives places, unique ids, and the messages as a batch has them."""
    for at in range(0, len(places), BATCH_COUNT):
        some = places[at : at + BATCH_COUNT]
        ids = new_ids(len(some))
        members = outgoing.members([messages[place] for place in some], ids)
        begin = size = 0
        for end, member in enumerate(members):
            size += len(member)
            if size > batch_bytes and end > begin:
                yield some[begin:end], ids[begin:end], members[begin:end]
                begin, size = end, len(member)
        yield some[begin:], ids[begin:], members[begin:]
