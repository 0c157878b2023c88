from pathlib import Path

import pytest
from tests.live import serving

from cometmq.admin import traces
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.message import Message
from cometmq.wire.bodies.trace import TRACE_TOPIC, AfterTrace, BeforeTrace, Outcome, PubTrace, encode


async def test_what_clients_recorded_of_a_message_is_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        assert await traces.of_message(admin, "nothing") == []
        async with Producer(live.name_server, trace=True) as producer:
            sent = await producer.send(Message("T", b"x"))
        after = AfterTrace("r", sent.message_id, 1, True, "", Outcome.SUCCESS, 2**42, "billing")
        before = BeforeTrace(2**42, "region", "billing", "r", sent.message_id, 0, "")
        other = before._replace(message_id="other")
        async with Producer(live.name_server) as producer:
            for body in (encode([after, before, other]), b"SubAfter\x01not a number\x02"):
                await producer.send(Message(TRACE_TOPIC, body, keys=(sent.message_id,)))
        found = await traces.of_message(admin, sent.message_id)
        assert isinstance(found[0], PubTrace) and found[0].success
        assert found[1:] == [before, after], "each once, the send first"


async def test_each_message_of_a_large_batch_is_found(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        async with Producer(live.name_server, trace=True) as producer:
            sent = await producer.send_many([Message("T", b"x")] * 2_000)
        for one in (sent[0], sent[999], sent[-1]):
            (trace,) = await traces.of_message(admin, one.message_id)
            assert isinstance(trace, PubTrace)
            place = trace.message_id.split(",").index(one.message_id)
            assert trace.offset_id.split(",")[place] == one.offset_id


async def test_a_trace_that_no_client_can_have_written_is_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "BYTES_MAX", 100_000)
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        async with Producer(live.name_server, trace=True) as producer:
            sent = await producer.send(Message("T", b"x"))
        bomb = encode([BeforeTrace(2**42, "r", "g" * 1_000_000, "r", sent.message_id, 0, "")])
        async with Producer(live.name_server) as producer:
            await producer.send(Message(TRACE_TOPIC, bomb, keys=(sent.message_id,)))
        (trace,) = await traces.of_message(admin, sent.message_id)
        assert isinstance(trace, PubTrace)


async def test_of_more_traces_than_a_message_can_have_some_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "COUNT_MAX", 3)
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        async with Producer(live.name_server) as producer:
            for attempt in range(2):
                many = [BeforeTrace(n, "r", "g", "r", "id", attempt, "") for n in range(9)]
                await producer.send(Message(TRACE_TOPIC, encode(many), keys=("id",)))
        assert len(await traces.of_message(admin, "id")) == 3
