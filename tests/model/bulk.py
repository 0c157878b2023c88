"""Sends as a broker reads them from a socket, for the bulk way into a store."""

from collections.abc import Sequence

from tests.kernels.reading import frames_in
from tests.kernels.sending import TEMPLATE, json_frame

from cometmq import kernels
from cometmq.format.host import sized_host
from cometmq.format.record import decode_many
from cometmq.kernels.sends.rows import SendBatch, constants_of
from cometmq.kernels.sends.send_topics import SendTopics
from cometmq.store import MessageStore, NewMessage


def append(store: MessageStore, messages: Sequence[NewMessage], queue_count: int) -> list[tuple[int, int]]:
    """Append messages as far as they fit into the log's file; give physical and queue offsets.

    Raises StoreNotWritable.
    """
    table = SendTopics[None]()
    for message in messages:
        table.put_topic(message.topic, None, queue_count)
        number = store.appending.queue_number(message.topic, message.queue_id)
        table.put_queue(message.topic, message.queue_id, number)
    host = messages[0].store_host
    batch = SendBatch(table, constants_of(TEMPLATE, b"", host), store.settings.max_message_size)
    data = b"".join(
        json_frame(
            {
                "b": message.topic,
                "e": str(message.queue_id),
                "i": f"UNIQ_KEY\x01{number}\x02{message.properties.decode()}",
            },
            message.body,
        )
        for number, message in enumerate(messages)
    )
    ops = kernels.load()
    frames = frames_in(ops, data)
    store.appending.sends(ops.sends, batch, frames, sized_host(host))
    assert frames.runs[0].done == len(messages) or store._log.file_room < len(data), "these are usual sends"
    return [(record.physical_offset, record.queue_offset) for record in decode_many(bytes(batch.records))]
