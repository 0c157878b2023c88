"""Encode an application's messages as the fields and bytes of send requests.

Source: RocketMQ ``client/Validators.java``, ``DefaultMQProducerImpl.java`` (sendKernelImpl).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from cometmq.arguments import shown
from cometmq.errors import IllegalName, MessageIllegal
from cometmq.format import compression, properties, sent, sys_flag
from cometmq.format.delay_level import LEVEL_MAX
from cometmq.format.layout import valid_topic
from cometmq.format.sys_flag import CompressionType
from cometmq.message import Message, MessageQueue
from cometmq.wire import batch
from cometmq.wire.send_request import SendRequest

BODY_SIZE_MAX = 4 * 1024 * 1024
COMPRESS_OVER_BYTES = 4096
_BEFORE_ID, _BEHIND_ID = properties.text_of({properties.UNIQ_KEY: "?", properties.WAIT: "true"}).split("?")
"""The properties that the producer adds, around the message's unique id."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message or a batch, ready to be sent to any queue of its topic.

    Attributes:
        idempotence_key: of the message, or of the first of a batch in which each has one: then a retry to the
            same queue makes no duplicate.
        wants_reply: whether it is a request: the producer must be registered with the broker before.
        is_reply: whether it is the reply to a request.
        born_time: when it was created, ms since the epoch; None for when it is sent.
    """

    topic: str
    message_ids: tuple[str, ...]
    properties: str
    body: bytes
    flag: int
    sys_flag: int
    is_batch: bool
    sharding_key: str | None = None
    idempotence_key: str | None = None
    wants_reply: bool = False
    is_reply: bool = False
    born_time: int | None = None

    @property
    def queue_key(self) -> str | None:
        """The key that decides on the queue, or None."""
        return self.sharding_key if self.sharding_key is not None else self.idempotence_key

    @property
    def message_id(self) -> str:
        """The unique id of the message, or of the first of a batch."""
        return self.message_ids[0]

    def request(self, group: str, queue: MessageQueue, born_time: int) -> SendRequest:
        """Build the request that sends it to ``queue``.

        Args:
            born_time: the time of the send, ms since the epoch, for a message without one of its own.
        """
        return SendRequest(
            producer_group=group,
            topic=self.topic,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_time=born_time if self.born_time is None else self.born_time,
            flag=self.flag,
            properties=self.properties,
            broker_name=queue.broker_name,
            is_batch=self.is_batch,
            body=self.body,
            is_reply=self.is_reply,
        )


def single(
    message: Message,
    unique_id: str,
    *,
    compress_over: int | None = COMPRESS_OVER_BYTES,
    compression_type: CompressionType = CompressionType.ZLIB,
    delay_level_max: int = LEVEL_MAX,
) -> Outgoing:
    """Encode one message; a body of at least ``compress_over`` bytes is compressed.

    Raises MessageIllegal or IllegalName if the message breaks a limit.
    """
    if message.delay_level > delay_level_max:  # a broker would take its highest level instead
        raise MessageIllegal(
            f"delay level {message.delay_level}: the highest is {delay_level_max}; give delay_ms or "
            "deliver_time for any other time, or Producer(delay_level_max=…) if the brokers' "
            "messageDelayLevel has more levels"
        )
    text = _properties(message, unique_id).decode()
    body, flags = message.body, 0
    if compress_over is not None and len(body) >= compress_over:
        body = compression.compress(body, compression_type)
        flags = sys_flag.compressed_with(0, compression_type)
    return Outgoing(
        message.topic,
        (unique_id,),
        text,
        body,
        message.flag,
        flags,
        is_batch=False,
        sharding_key=message.sharding_key,
        idempotence_key=message.properties.get(properties.IDEMPOTENCE_KEY),
    )


def many(messages: Sequence[Message], unique_ids: Sequence[str], batch_id: str) -> Outgoing:
    """Encode a batch: messages of one topic that are sent to one queue together.

    Raises MessageIllegal or IllegalName if a message or the batch breaks a limit.
    """
    if not messages:
        raise MessageIllegal("batch without messages: give it at least one")
    topics = {message.topic for message in messages}
    if len(topics) != 1:
        raise MessageIllegal(f"batch for the topics {sorted(topics)}: all must have the same one")
    with naming_illegal(messages, _member):
        members = encode_members(messages, unique_ids)
    return batch_of(messages[0].topic, members, unique_ids, batch_id, common_idempotence_key(messages))


def encode_members(messages: Sequence[Message], unique_ids: Sequence[str]) -> list[bytes]:
    """Encode messages of one topic as members of a batch. Raises like ``encode_member``."""
    topic = valid_topic(messages[0].topic)
    return batch.encode_each(
        [
            (message.body, f"{_BEFORE_ID}{unique_id}{_BEHIND_ID}".encode(), 0)
            if message.has_body_only and message.topic == topic and 0 < len(message.body) <= BODY_SIZE_MAX
            else _member(message, unique_id)  # most have only a body: there is nothing else to check
            for message, unique_id in zip(messages, unique_ids, strict=True)
        ]
    )


def encode_member(message: Message, unique_id: str) -> bytes:
    """Encode a message as member of a batch. Raises MessageIllegal or IllegalName if it breaks a limit."""
    return batch.encode_one(*_member(message, unique_id))


def _member(message: Message, unique_id: str) -> tuple[bytes, bytes, int]:
    """Check a message; return body, properties and flag."""
    text = _properties(message, unique_id)
    if message.is_delayed:
        raise MessageIllegal("batch with a delay: RocketMQ delays single messages only")
    return message.body, text, message.flag


def _properties(message: Message, unique_id: str) -> bytes:
    """Check a message; return its properties string, with those that the producer adds."""
    own, body = f"{_BEFORE_ID}{unique_id}{_BEHIND_ID}", message.body
    if message.has_body_only and 0 < len(body) <= BODY_SIZE_MAX:
        valid_topic(message.topic)
        return own.encode()
    sent.check(message, body_size_max=BODY_SIZE_MAX)
    return sent.properties_of(message, own)


@contextmanager
def naming_illegal(
    messages: Sequence[Message], encode: Callable[[Message, str], object] = _properties
) -> Iterator[None]:
    """Add the index and the topic of the first illegal message to the error if encoding them all fails.

    Args:
        encode: encodes one message, given its unique id; raises if the message breaks a limit.
    """
    try:
        yield
    except (MessageIllegal, IllegalName):
        for index, message in enumerate(messages):
            try:
                encode(message, "")
            except (MessageIllegal, IllegalName) as error:
                raise type(error)(f"message {index}, of topic {shown(message.topic)}: {error}") from None
        raise


def batch_of(
    topic: str,
    members: Sequence[bytes],
    unique_ids: Sequence[str],
    batch_id: str,
    idempotence_key: str | None = None,
) -> Outgoing:
    """Build a batch of encoded members of one topic. Raises MessageIllegal if it is too long."""
    body = b"".join(members)
    if len(body) > BODY_SIZE_MAX:
        raise MessageIllegal(
            f"batch of {len(body)} bytes: a broker takes at most {BODY_SIZE_MAX}; send fewer at once"
        )
    ids = tuple(unique_ids)
    return Outgoing(
        topic,
        ids,
        f"{_BEFORE_ID}{batch_id}{_BEHIND_ID}",
        body,
        0,
        0,
        is_batch=True,
        idempotence_key=idempotence_key,
    )


def common_sharding_key(messages: Sequence[Message]) -> str | None:
    """Return the sharding key that all messages of a batch have. Raises MessageIllegal if they differ."""
    first, *others = {message.sharding_key for message in messages}
    if others:
        raise MessageIllegal("batch with several sharding keys: they may belong to different queues")
    return first


def common_idempotence_key(messages: Iterable[Message]) -> str | None:
    """Return the idempotence key of a batch's first message if all have one, else None."""
    first = None
    for message in messages:
        key = message.properties.get(properties.IDEMPOTENCE_KEY)
        if key is None:
            return None
        first = first or key
    return first


def queue_key(message: Message) -> str | None:
    """Return the key that decides on a message's queue: its sharding key, else its idempotence key."""
    if message.sharding_key is not None:
        return message.sharding_key
    return message.properties.get(properties.IDEMPOTENCE_KEY)
