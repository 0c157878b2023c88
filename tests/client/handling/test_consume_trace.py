"""What is told of messages that are handled, and what is not."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.pulled import stored

from cometmq.client.handling.consume_trace import ConsumeTracer
from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.io.clock import ManualClock
from cometmq.message import Message, StoredMessage
from cometmq.wire.bodies.trace import TRACE_TOPIC, AfterTrace, BeforeTrace, Outcome, PubTrace, decode

FIRST = replace(stored(0), keys=("k1", "k2"), properties={"MSG_REGION": "here"}, reconsume_times=3)
SECOND = stored(1)


def told(messages: list[StoredMessage], error: BaseException | None = None) -> list[BeforeTrace | AfterTrace]:
    """Return what is told of a handling of messages, which takes 10 ms and may fail."""
    clock = ManualClock(1_000)

    async def handle() -> None:
        clock.advance(10)
        if error is not None:
            raise error

    async def main() -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        tracer = ConsumeTracer(send, "shop", clock)
        if error is None:
            await tracer.watch(messages, handle())
        else:
            with pytest.raises(type(error)):
                await tracer.watch(messages, handle())
        await tracer.close()
        return sent

    traces = [trace for message in asyncio.run(main()) for trace in decode(message.body)]
    return [trace for trace in traces if not isinstance(trace, PubTrace)]


def test_each_message_is_told_of_before_and_after() -> None:
    traces = told([FIRST, SECOND])
    (request_id,) = {trace.request_id for trace in traces}
    assert traces == [
        BeforeTrace(1_000, "here", "shop", request_id, "message-0", 3, "k1 k2"),
        BeforeTrace(1_000, "DefaultRegion", "shop", request_id, "message-1", 0, ""),
        AfterTrace(request_id, "message-0", 5, True, "k1 k2", Outcome.SUCCESS, 1_010, "shop"),
        AfterTrace(request_id, "message-1", 5, True, "", Outcome.SUCCESS, 1_010, "shop"),
    ]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Retry(), Outcome.FAILED),
        (DeadLetter(), Outcome.FAILED),
        (ValueError(), Outcome.EXCEPTION),
        (asyncio.CancelledError(), Outcome.EXCEPTION),
    ],
)
def test_a_failure_is_told_and_goes_on(error: BaseException, outcome: Outcome) -> None:
    _, after = told([SECOND], error)
    assert isinstance(after, AfterTrace)
    assert (after.success, after.outcome) == (False, outcome)


def test_nothing_is_told_where_the_broker_wants_no_traces_nor_of_traces_themselves() -> None:
    assert told([replace(SECOND, properties={"TRACE_ON": "false"}), replace(SECOND, topic=TRACE_TOPIC)]) == []
