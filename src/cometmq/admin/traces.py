"""Find what clients recorded about a message: its send, and each time that a group handled it."""

import asyncio
from contextlib import aclosing
from typing import Final

from cometmq.admin import messages
from cometmq.admin.cluster import ClusterAdmin
from cometmq.arguments import TEXT, check
from cometmq.errors import FormatError, NotFound
from cometmq.format.compression import decompress
from cometmq.message import StoredMessage
from cometmq.wire.bodies.trace import TRACE_TOPIC, AfterTrace, PubTrace, Trace, decode

BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of traces, decompressed, that are read for one message: a client sends 128 KB at once."""
COUNT_MAX: Final = 1_000
"""Most traces of one message: each attempt of a group to handle it leaves two."""


async def of_message(cluster: ClusterAdmin, message_id: str) -> list[Trace]:
    """Return the traces of a message by its unique id, the first one first; empty if there are none.

    Clients write them if they are told to, into a topic of the broker's. At most ``COUNT_MAX`` are returned,
    and ``BYTES_MAX`` read. Raises RemoteError, NetworkError.
    """
    check(TEXT, message_id=message_id)
    mine: set[Trace] = set()
    left = BYTES_MAX
    try:
        async with aclosing(messages.by_key(cluster, TRACE_TOPIC, message_id)) as found:
            async for message in found:
                traces, size = await asyncio.to_thread(_traces_in, message, message_id, left)
                mine.update(traces[: COUNT_MAX - len(mine)])
                left -= size
    except NotFound:
        return []
    return sorted(mine, key=lambda trace: (_time_of(trace), type(trace) is AfterTrace))


def _traces_in(message: StoredMessage, message_id: str, size_max: int) -> tuple[list[Trace], int]:
    """Return the traces of one message that another one has, and how many bytes were read for that."""
    try:
        body = decompress(message.body, message.sys_flag, size_max=size_max)
    except FormatError:
        return [], 0  # damaged, or too large for any client to have written it
    if len(body) > size_max:
        return [], 0
    try:
        traces = decode(body) if message_id.encode() in body else []
    except FormatError:
        traces = []  # a client of another kind wrote it: the others are shown
    return [trace for trace in traces if message_id in trace.message_id.split(",")], len(body)


def _time_of(trace: Trace) -> int:
    return trace.born_time if isinstance(trace, PubTrace) else trace.time
