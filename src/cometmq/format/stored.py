"""Convert a record of the CommitLog to the message that a user receives."""

from msgspec.structs import replace

from cometmq.errors import FormatError, UndecodableBody
from cometmq.format import properties
from cometmq.format.checksum import body_crc
from cometmq.format.compression import DECOMPRESSED_MAX, decompress
from cometmq.format.host import host_text
from cometmq.format.message_id import offset_message_id
from cometmq.format.record import Record
from cometmq.format.sys_flag import COMPRESSED
from cometmq.message import StoredMessage


def stored_message(record: Record, *, size_max: int = DECOMPRESSED_MAX) -> StoredMessage:
    """Convert a record to a message: body decompressed, keys split, ids as text.

    As in RocketMQ's own clients, ``sys_flag`` then no longer says that the body is compressed (only how it
    was), while ``body_crc`` stays that of the body as stored.

    Args:
        record: as ``record.decode`` returns it.
        size_max: largest decompressed body, in bytes.

    Raises:
        UndecodableBody: the compressed body cannot be decompressed: see ``compression.decompress``.

    Source: RocketMQ: MessageDecoder.java (decode).
    """
    return with_whole_body(message_as_stored(record), size_max=size_max)


def readable_message(record: Record) -> StoredMessage:
    """Convert a record to a message; a body that cannot be decompressed stays as stored.

    ``sys_flag`` then says that the body is compressed. Look-ups use it, which show such a message too.
    """
    return with_readable_body(message_as_stored(record))


def with_whole_body(message: StoredMessage, *, size_max: int = DECOMPRESSED_MAX) -> StoredMessage:
    """Return the message with its body decompressed. Raises UndecodableBody if that fails."""
    if not message.sys_flag & COMPRESSED:
        return message
    try:
        body = decompress(message.body, message.sys_flag, size_max=size_max)
    except FormatError as error:
        raise UndecodableBody(message, str(error)) from None
    return replace(message, body=body, sys_flag=message.sys_flag & ~COMPRESSED)


def with_readable_body(message: StoredMessage, *, size_max: int = DECOMPRESSED_MAX) -> StoredMessage:
    """Return the message with its body decompressed, or unchanged if that fails."""
    try:
        return with_whole_body(message, size_max=size_max)
    except UndecodableBody:
        return message


def message_as_stored(record: Record) -> StoredMessage:
    """Convert a record to a message with its body as stored; ``sys_flag`` says whether it is compressed."""
    by_name = properties.decode(record.properties)
    offset_id = offset_message_id(record.store_host, record.physical_offset)
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        message_id=by_name.get(properties.UNIQ_KEY, offset_id),
        offset_id=offset_id,
        tags=by_name.get(properties.TAGS),
        keys=tuple(properties.split_keys(by_name.get(properties.KEYS, ""))),
        properties=by_name,
        body=bytes(record.body),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_time=record.born_time,
        born_host=host_text(record.born_host),
        store_time=record.store_time,
        store_host=host_text(record.store_host),
        reconsume_times=record.reconsume_times,
        body_crc=body_crc(record.body) if record.body_crc is None else record.body_crc,
    )
