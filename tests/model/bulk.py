"""Sends as a broker reads them from a socket, for the bulk way into a store."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from tests.kernels.sending import PIECES, json_frame

from cometmq import kernels
from cometmq.kernels.sends import Answers, SendBatch, hosts_of
from cometmq.kernels.topic_table import TopicTable
from cometmq.store import MessageStore, NewMessage

ANSWERS: Final = Answers(
    np.frombuffer(b"".join(PIECES), np.uint8),
    np.array([0, *accumulate(map(len, PIECES))]),
    np.frombuffer(b"7F00000100002A9F", np.uint8),
)


def append(store: MessageStore, messages: Sequence[NewMessage], queue_count: int) -> list[tuple[int, int]]:
    """Append messages as far as they fit into the log's file; give physical and queue offsets.

    Raises StoreNotWritable.
    """
    table = TopicTable()
    for message in messages:
        number = store.bulk.queue_number(message.topic, message.queue_id)
        table.put(message.topic, queue_count, message.queue_id, number)
    ops = kernels.load().sends
    assert ops is not None
    batch = SendBatch(ops, table, b"", ANSWERS)
    frames = b"".join(
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
    data = np.frombuffer(frames, np.uint8)
    end, _ = batch.read(data, 0, store.bulk.next_offsets, store.settings.max_message_size, 32_767)
    assert end == len(data), "these are usual sends"
    host = messages[0].store_host
    store.bulk.append(batch, hosts_of(host, host))
    taken = batch.sends[: batch.count]
    return list(zip(taken["physical_offset"].tolist(), taken["queue_offset"].tolist(), strict=True))
