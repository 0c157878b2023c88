"""Two workers of a proxy, whose clients come by connections to either."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from google.protobuf.duration_pb2 import Duration
from grpclib.client import Channel
from tests.kit.grpc_clients import consumer
from tests.proxy.conftest import Front, GrpcClient, key_of, receive_request

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy import renewals
from cometmq.proxy.clients import SILENT_S_MAX
from cometmq.proxy.fellow_workers import WorkerPlace
from cometmq.proxy.messages.receipts import parse_client_receipt
from cometmq.proxy.proxy import Proxy
from cometmq.testing.embedded_broker import EmbeddedBroker

RENEWED_MS = 5_000
LONGER = Duration(seconds=10)
"""Longer than what was renewed stays hidden."""


class Workers(NamedTuple):
    """Two workers, and a client with a connection to each."""

    first: Front
    second: Front

    async def receive_and_renew(self) -> pb.Message:
        """Send a message, receive it at the first worker, and have that renew its handle."""
        await self.first.create_topic("T", queues=1)
        await self.first.send("T", b"x")
        (message,) = await self.first.receive("T", "G", 1, auto_renew=True)
        assert parse_client_receipt(message.system_properties.receipt_handle).worker == 0
        held = self.first.proxy._renewals
        for of_owner in held._held.values():
            for one in of_owner.values():
                one.ends_ms = 0
        await held.renew()
        return message

    async def comes_again(self) -> bool:
        """Wait for longer than the message is hidden; return whether it comes again."""
        request = receive_request("T", "G", long_polling_timeout=LONGER)
        _, messages = await self.second.client.receive(request)
        return bool(messages)


@pytest.fixture
async def workers(
    rocketmq: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workers]:
    monkeypatch.setattr(renewals, "TIMES_MS", (RENEWED_MS,))
    fronts = []
    async with AsyncExitStack() as stack:
        for number in range(2):
            proxy = Proxy([rocketmq.name_server], port=0)
            await proxy.start(WorkerPlace(tmp_path, number, 2))
            stack.push_async_callback(proxy.stop)
            channel = await stack.enter_async_context(Channel("127.0.0.1", proxy.port))
            fronts.append(Front(proxy, rocketmq, GrpcClient(channel, {"x-mq-client-id": "c"})))
        yield Workers(*fronts)


def entry_of(message: pb.Message) -> pb.AckMessageEntry:
    system = message.system_properties
    return pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)


async def test_what_one_worker_has_renewed_is_acknowledged_at_another_by_the_first_handle(
    workers: Workers,
) -> None:
    message = await workers.receive_and_renew()
    names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
    request = pb.AckMessageRequest(entries=[entry_of(message)], **names)
    answer = await workers.second.client.call("AckMessage", request)
    assert answer.status.code == answer.entries[0].status.code == pb.OK
    assert answer.entries[0].receipt_handle == message.system_properties.receipt_handle
    assert not workers.first.proxy._renewals._held[key_of("c"), "G"]
    assert not await workers.comes_again()


async def test_what_one_worker_has_renewed_is_hidden_by_another_for_another_time(workers: Workers) -> None:
    message = await workers.receive_and_renew()
    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name="G"),
        topic=pb.Resource(name="T"),
        receipt_handle=message.system_properties.receipt_handle,
        invisible_duration=Duration(seconds=60),
    )
    answer = await workers.second.client.call("ChangeInvisibleDuration", request)
    assert answer.status.code == pb.OK
    changed = parse_client_receipt(answer.receipt_handle)
    assert changed.handle.invisible_ms == 60_000 and changed.worker is None
    assert not workers.first.proxy._renewals._held[key_of("c"), "G"]
    assert not await workers.comes_again()


async def test_what_one_worker_has_renewed_becomes_a_dead_letter_by_another(workers: Workers) -> None:
    message = await workers.receive_and_renew()
    system = message.system_properties
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name="G"),
        topic=pb.Resource(name="T"),
        receipt_handle=system.receipt_handle,
        message_id=system.message_id,
    )
    answer = await workers.second.client.call("ForwardMessageToDeadLetterQueue", request)
    assert answer.status.code == pb.OK
    (letter,) = workers.second.broker.dead_letters("G")
    assert letter.body == b"x"
    assert not workers.first.proxy._renewals._held[key_of("c"), "G"]


async def test_a_worker_that_is_gone_is_named_in_the_answer(workers: Workers) -> None:
    message = await workers.receive_and_renew()
    await workers.first.proxy._fellows.close()
    names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
    request = pb.AckMessageRequest(entries=[entry_of(message)], **names)
    answer = await workers.second.client.call("AckMessage", request)
    assert answer.status.code == pb.INTERNAL_SERVER_ERROR
    assert "does not answer AckMessage" in answer.status.message


async def test_a_client_that_has_moved_to_another_worker_is_not_forgotten(workers: Workers) -> None:
    await workers.receive_and_renew()
    async with workers.first.client.telemetry(consumer("G", "T")):
        pass
    async with workers.second.client.telemetry(consumer("G", "T")):
        (client,) = workers.first.proxy.clients
        client.heard_at -= SILENT_S_MAX + 1
        await workers.first.proxy._sessions.forget_silent()
        assert list(workers.first.proxy.clients) == [client]
        assert workers.first.proxy._renewals._held[key_of("c"), "G"]
    (moved,) = workers.second.proxy.clients
    moved.heard_at -= SILENT_S_MAX + 1
    await workers.first.proxy._sessions.forget_silent()
    assert list(workers.first.proxy.clients) == []
    assert not workers.first.proxy._renewals._held[key_of("c"), "G"]


async def test_a_client_that_leaves_is_forgotten_by_all_workers(workers: Workers) -> None:
    await workers.receive_and_renew()
    for front in workers:
        async with front.client.telemetry(consumer("G", "T")):
            pass
    request = pb.NotifyClientTerminationRequest(group=pb.Resource(name="G"))
    answer = await workers.second.client.call("NotifyClientTermination", request)
    assert answer.status.code == pb.OK
    assert [list(front.proxy.clients) for front in workers] == [[], []]
    assert not workers.first.proxy._renewals._held[key_of("c"), "G"]


async def test_a_client_without_settings_is_heard_by_what_other_workers_pass_on(workers: Workers) -> None:
    message = await workers.receive_and_renew()
    client = workers.first.proxy._clients.find(key_of("c"))
    assert client is not None and not client.has_settings
    client.heard_at -= SILENT_S_MAX + 1
    names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
    request = pb.AckMessageRequest(entries=[entry_of(message)], **names)
    await workers.second.client.call("AckMessage", request)
    assert not client.is_silent


async def test_a_client_that_only_another_worker_knows_may_leave_anywhere(workers: Workers) -> None:
    await workers.receive_and_renew()
    request = pb.NotifyClientTerminationRequest(group=pb.Resource(name="G"))
    for code in (pb.OK, pb.UNRECOGNIZED_CLIENT_TYPE):
        answer = await workers.second.client.call("NotifyClientTermination", request)
        assert answer.status.code == code
    assert workers.first.proxy._renewals.owners() == set()


async def test_a_handle_that_names_no_worker_or_one_that_never_was_is_ended_where_it_comes(
    workers: Workers,
) -> None:
    await workers.first.create_topic("T", queues=1)
    for worker in (None, 7):
        await workers.first.send("T", b"x")
        (message,) = await workers.first.receive("T", "G", 1)
        receipt = parse_client_receipt(message.system_properties.receipt_handle)
        assert receipt.worker is None
        handle = str(receipt._replace(worker=worker))
        assert workers.second.proxy._fellows.holder_of(handle) is None
        entry = pb.AckMessageEntry(message_id="ID", receipt_handle=handle)
        names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
        answer = await workers.second.client.call(
            "AckMessage", pb.AckMessageRequest(entries=[entry], **names)
        )
        assert answer.status.code == pb.OK
