"""A trace from the producer through a broker to the handler."""

import asyncio

import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: it is in requirements.lock")

from opentelemetry import trace
from tests.otel.spans import Recorded, is_child, trace_parent

from cometmq import Consumer, Message, Start, StoredMessage, TransactionState
from cometmq.errors import NetworkError
from cometmq.otel import ProcessSpans, TracedProducer, TracedTransactionProducer
from cometmq.testing import AsyncEmbeddedBroker

PATIENCE_S = 120


async def test_a_handler_in_a_thread_is_within_the_trace_of_the_send(
    rocketmq_async: AsyncEmbeddedBroker,
) -> None:
    recorded = Recorded()
    found: list[int] = []
    hooks = [ProcessSpans(recorded.tracer)]
    consumer = Consumer(rocketmq_async.name_server, "billing", start=Start.FIRST, hooks=hooks)
    consumer.on("orders")(lambda _: found.append(trace.get_current_span().get_span_context().span_id))
    producer = TracedProducer(rocketmq_async.name_server, linger_ms=1)
    producer.tracer = recorded.tracer
    async with producer, consumer:
        result = await producer.send(Message("orders", b"x", properties={"size": "5"}))
        await rocketmq_async.wait_consumed("billing", "orders")
    sent, processed = recorded.named("send orders"), recorded.named("process orders")
    assert is_child(processed, sent)
    own = processed.get_span_context()
    assert own is not None and found == [own.span_id]
    assert sent.attributes is not None and sent.attributes["messaging.message.id"] == result.message_id
    [stored] = await rocketmq_async.messages("orders")
    assert stored.properties["size"] == "5"


async def test_each_way_to_send_is_one_span_whose_context_is_stored(
    rocketmq_async: AsyncEmbeddedBroker,
) -> None:
    recorded = Recorded()
    producer = TracedProducer(rocketmq_async.name_server)
    producer.tracer = recorded.tracer
    async with producer:
        await producer.send_many([Message("many", b"x"), Message("many", b"y")])
        await producer.send_batch([Message("batch", b"x"), Message("batch", b"y")])
        await producer.send(Message("oneway", b"first"))
        await producer.send_oneway(Message("oneway", b"x"))
        await producer.send(Message("oneway", b"last"))
    carried = {
        topic: {one.properties["traceparent"] for one in await rocketmq_async.messages(topic)}
        for topic in ("many", "batch", "oneway")
    }
    assert carried["many"] == {trace_parent(recorded.named("send many"))}
    assert carried["batch"] == {trace_parent(recorded.named("send batch"))}
    assert len(carried["oneway"]) == 3 and len(recorded.spans) == 5


async def test_a_request_and_its_reply_are_in_one_trace(rocketmq_async: AsyncEmbeddedBroker) -> None:
    recorded = Recorded()
    producer = TracedProducer(rocketmq_async.name_server)
    producer.tracer = recorded.tracer
    hooks = [ProcessSpans(recorded.tracer)]
    consumer = Consumer(rocketmq_async.name_server, "prices", start=Start.FIRST, hooks=hooks)

    @consumer.on("prices")
    async def answer(message: StoredMessage) -> None:
        await producer.reply(message, b"5")

    async with producer, consumer, asyncio.timeout(PATIENCE_S):
        reply = await producer.request(Message("prices", b"button"), timeout_ms=PATIENCE_S * 1000)
        await rocketmq_async.wait_consumed("prices", "prices")
    sends = [span for span in recorded.spans if span.name == "send prices"]
    asked, answered = sorted(sends, key=lambda span: span.start_time or 0)
    processed = recorded.named("process prices")
    assert is_child(processed, asked) and is_child(answered, processed)
    assert reply.properties["traceparent"] == trace_parent(answered)


async def test_a_transaction_s_message_is_sent_within_a_span(rocketmq_async: AsyncEmbeddedBroker) -> None:
    recorded = Recorded()

    async def commit(_: object) -> TransactionState:
        return TransactionState.COMMIT

    producer = TracedTransactionProducer(rocketmq_async.name_server, "shop", check=commit)
    producer.tracer = recorded.tracer
    async with producer:
        await producer.send_in_transaction(Message("orders", b"x"), commit)
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await rocketmq_async.messages("orders")):
                await rocketmq_async.advance(1)
    assert found[0].properties["traceparent"] == trace_parent(recorded.named("send orders"))


async def test_a_send_that_fails_is_an_error() -> None:
    recorded = Recorded()
    producer = TracedProducer("127.0.0.1:1", timeout_ms=1)
    producer.tracer = recorded.tracer
    async with producer:
        with pytest.raises(NetworkError):
            await producer.send(Message("orders", b"x"))
    span = recorded.named("send orders")
    assert span.attributes is not None and str(span.attributes["error.type"]).endswith("Error")
