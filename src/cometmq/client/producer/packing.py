"""Pack messages of any topics into as few requests as possible.

A batch goes to one queue of one topic. Delayed messages and those of retry topics are sent alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cometmq.client.producer import outgoing
from cometmq.client.producer.outgoing import Outgoing
from cometmq.format.layout import RETRY_PREFIX
from cometmq.message import Message, MessageQueue

BATCH_BYTES: Final = 1 << 20
"""Size of one request: a quarter of the brokers' limit; larger ones are not faster."""
BATCH_COUNT: Final = 4_096
"""Messages in one batch: the response names each by 33 bytes in its header."""


class PackedRequest(NamedTuple):
    """One request.

    Attributes:
        ready: the message or batch that is sent.
        indexes: of its messages in the packed sequence.
        ids: unique ids of its messages.
    """

    ready: Outgoing
    indexes: list[int]
    ids: list[str]


class Lane(NamedTuple):
    """Requests that are sent one after the other, to keep their order; ``queue`` is None for any queue."""

    queue: MessageQueue | None
    requests: list[PackedRequest]


def pack(
    messages: Sequence[Message],
    queue_of: Callable[[Message], MessageQueue | None] | None,
    new_ids: Callable[[int], list[str]],
    *,
    batch_bytes: int = BATCH_BYTES,
    compress: Callable[[Message, str], Outgoing] = outgoing.single,
) -> list[Lane]:
    """Pack messages into requests.

    Args:
        queue_of: returns the queue of a message, or None for any; itself None if any will do for all.
        new_ids: makes as many unique ids as its argument says.
        compress: encodes a message that is sent alone.

    Raises MessageIllegal or IllegalName if a message breaks a limit.
    """
    groups: defaultdict[tuple[str, MessageQueue | None], list[int]] = defaultdict(list)
    alone: list[int] = []
    for index, message in enumerate(messages):
        if _is_sent_alone(message):
            alone.append(index)
        else:
            groups[message.topic, queue_of and queue_of(message)].append(index)

    def single(index: int, unique_id: str) -> PackedRequest:
        return PackedRequest(compress(messages[index], unique_id), [index], [unique_id])

    def batch_of(topic: str, some: list[int], ids: list[str], members: list[bytes]) -> Outgoing:
        key = outgoing.common_idempotence_key(messages[index] for index in some)
        return outgoing.batch_of(topic, members, ids, new_ids(1)[0], key)

    lanes = [
        Lane(queue_of and queue_of(messages[index]), [single(index, unique_id)])
        for index, unique_id in zip(alone, new_ids(len(alone)), strict=True)
    ]
    for (topic, queue), indexes in groups.items():
        requests = [
            single(some[0], ids[0])
            if len(some) == 1
            else PackedRequest(batch_of(topic, some, ids, members), some, ids)
            for some, ids, members in _cut(messages, indexes, new_ids, batch_bytes)
        ]
        lanes += [Lane(None, [one]) for one in requests] if queue is None else [Lane(queue, requests)]
    return lanes


def can_linger(message: Message) -> bool:
    """Return whether a message can share a batch with any others of its topic."""
    return outgoing.queue_key(message) is None and not _is_sent_alone(message)


def _is_sent_alone(message: Message) -> bool:
    return message.is_delayed or message.topic.startswith(RETRY_PREFIX)


def _cut(
    messages: Sequence[Message], indexes: list[int], new_ids: Callable[[int], list[str]], batch_bytes: int
) -> Iterator[tuple[list[int], list[str], list[bytes]]]:
    """Cut a group into full batches: iterate over their indexes, unique ids and encoded members."""
    for at in range(0, len(indexes), BATCH_COUNT):
        some = indexes[at : at + BATCH_COUNT]
        ids = new_ids(len(some))
        members = outgoing.encode_members([messages[index] for index in some], ids)
        begin = size = 0
        for end, member in enumerate(members):
            size += len(member)
            if size > batch_bytes and end > begin:
                yield some[begin:end], ids[begin:end], members[begin:end]
                begin, size = end, len(member)
        yield some[begin:], ids[begin:], members[begin:]
