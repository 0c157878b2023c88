"""Find what clients recorded about a message: its send, and each time that a group handled it."""

from cometmq.admin import messages
from cometmq.admin.cluster import ClusterAdmin
from cometmq.arguments import TEXT, check
from cometmq.errors import FormatError, NotFound
from cometmq.wire.bodies.trace import TRACE_TOPIC, AfterTrace, PubTrace, Trace, decode


async def of_message(cluster: ClusterAdmin, message_id: str) -> list[Trace]:
    """Return the traces of a message by its unique id, the first one first; empty if there are none.

    Clients write them if they are told to, into a topic of the broker's. Raises RemoteError, NetworkError.
    """
    check(TEXT, message_id=message_id)
    try:
        found = await messages.by_key(cluster, TRACE_TOPIC, message_id)
    except NotFound:
        return []
    traces = [trace for message in found for trace in _decoded(message.body)]
    mine = {trace for trace in traces if message_id in trace.message_id.split(",")}
    return sorted(mine, key=lambda trace: (_time_of(trace), type(trace) is AfterTrace))


def _decoded(body: bytes) -> list[Trace]:
    try:
        return decode(body)
    except FormatError:
        return []  # a client of another kind wrote it: the others are shown


def _time_of(trace: Trace) -> int:
    return trace.born_time if isinstance(trace, PubTrace) else trace.time
