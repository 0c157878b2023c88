"""Trace records of sends: when, where to and how long.

Source: RocketMQ ``client/trace/hook/SendMessageTraceHookImpl.java``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from cometmq.client.producer.hooks import Attempt
from cometmq.client.producer.send_result import SendStatus
from cometmq.client.producer.trace import REGION, Tracer
from cometmq.format import properties
from cometmq.wire.bodies.trace import MessageKind, PubTrace

IDS_MAX: Final = 800
"""Most messages of a batch in one trace: each id is a key of its trace message (see ``KEYS_BYTES_MAX``)."""


class SendTracer(Tracer):
    """A hook that records a trace of each send that a broker has responded to."""

    def before_send(self, attempt: Attempt) -> None:
        """Do nothing: a send is traced when it has ended."""

    def after_send(self, attempt: Attempt) -> None:
        """Record the trace of an attempt; that of a large batch in parts."""
        if (trace := trace_of(attempt)) is not None:
            for part in _parts(trace):
                self.record(part.topic, part)


def trace_of(attempt: Attempt) -> PubTrace | None:
    """Build the trace of an attempt; None without a response, or if the broker has traces off."""
    ready, answer, result = attempt.ready, attempt.answer, attempt.result
    if answer is None or result is None or answer.ext_fields.get(properties.TRACE_ON) == "false":
        return None
    by_name = properties.decode(ready.properties.encode())
    return PubTrace(
        attempt.born_time,
        answer.ext_fields.get(properties.MSG_REGION) or REGION,
        attempt.group,
        ready.topic,
        ",".join(ready.message_ids),
        by_name.get(properties.TAGS, ""),
        by_name.get(properties.KEYS, ""),
        attempt.address,
        len(ready.body),
        attempt.cost_ms,
        _kind(by_name),
        result.offset_id,
        result.status is SendStatus.SEND_OK,
    )


def _parts(trace: PubTrace) -> Iterator[PubTrace]:
    """Divide the trace of a batch into traces of at most ``IDS_MAX`` of its messages."""
    ids, offset_ids = trace.message_id.split(","), trace.offset_id.split(",")
    for begin in range(0, len(ids), IDS_MAX):
        some = slice(begin, begin + IDS_MAX)  # a broker that keeps a batch as one record has one offset id
        offset_id = ",".join(offset_ids[some]) if len(offset_ids) == len(ids) else trace.offset_id
        yield trace._replace(message_id=",".join(ids[some]), offset_id=offset_id)


def _kind(by_name: Mapping[str, str]) -> MessageKind:
    if properties.TRANSACTION_PREPARED in by_name:
        return MessageKind.HALF
    is_delayed = any(name in by_name for name in (properties.DELAY, *properties.TIMER_ASKS))
    return MessageKind.DELAYED if is_delayed else MessageKind.NORMAL
