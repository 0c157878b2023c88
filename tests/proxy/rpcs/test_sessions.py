import asyncio
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.kit.grpc_clients import consumer, members, pop_is_held, producer
from tests.proxy.conftest import Front, key_of, receive_request

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.clients import SILENT_S_MAX
from cometmq.proxy.rpcs.sessions import merged_settings
from cometmq.wire.bodies.group import GroupConfig


async def answer_to(front: Front, settings: pb.Settings) -> pb.TelemetryCommand:
    async with front.client.open("Telemetry") as stream:
        await stream.send_message(pb.TelemetryCommand(settings=settings), end=True)
        answers = [answer async for answer in stream]
    (answer,) = answers
    assert isinstance(answer, pb.TelemetryCommand)
    return answer


async def test_a_producers_settings_are_merged(front: Front) -> None:
    await front.create_topic("T")
    answer = await answer_to(front, producer("T"))
    assert answer.status.code == pb.OK
    assert answer.settings.publishing.validate_message_type
    assert answer.settings.backoff_policy.max_attempts == 3


async def test_a_consumers_group_is_created_and_its_settings_are_merged(front: Front) -> None:
    await front.create_topic("T")
    answer = await answer_to(front, consumer())
    assert answer.settings.backoff_policy.max_attempts == 17
    assert not answer.settings.subscription.fifo
    assert len(await members(front, "G")) == 1


async def test_a_group_in_order_is_told_so(front: Front) -> None:
    await front.create_topic("T")
    await front.create_group("G", consume_message_orderly=True)
    assert (await answer_to(front, consumer())).settings.subscription.fifo


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (pb.Settings(), Status.INVALID_ARGUMENT),
        (producer("no topic"), Status.INVALID_ARGUMENT),
        (consumer(group=""), Status.INVALID_ARGUMENT),
        (consumer(kind=pb.PULL_CONSUMER), Status.INVALID_ARGUMENT),
    ],
)
async def test_illegal_settings_end_the_stream(front: Front, settings: pb.Settings, status: Status) -> None:
    with pytest.raises(GRPCError) as caught:
        await answer_to(front, settings)
    assert caught.value.status is status
    assert str(caught.value.message).startswith("process client telemetryCommand failed. ")


async def test_a_client_without_id_is_told_so_on_its_stream(front: Front) -> None:
    unnamed = front._replace(client=front.client._replace(metadata={}))
    assert (await answer_to(unnamed, producer())).status.code == pb.CLIENT_ID_REQUIRED


async def test_a_heartbeat_of_an_unknown_client_has_it_send_its_settings(front: Front) -> None:
    await front.create_topic("T")
    request = pb.HeartbeatRequest(client_type=pb.PRODUCER)
    assert (await front.client.call("Heartbeat", request)).status.code == pb.UNRECOGNIZED_CLIENT_TYPE
    async with front.client.telemetry(producer("T")):
        assert (await front.client.call("Heartbeat", request)).status.code == pb.OK
        pull = pb.HeartbeatRequest(client_type=pb.PULL_CONSUMER)
        assert (await front.client.call("Heartbeat", pull)).status.code == pb.UNRECOGNIZED_CLIENT_TYPE


async def test_the_last_member_that_terminates_leaves_the_group(front: Front) -> None:
    await front.create_topic("T")
    other, ended = front.other("client-2"), pb.NotifyClientTerminationRequest()
    async with front.client.telemetry(consumer()), other.telemetry(consumer()):
        assert (await other.call("NotifyClientTermination", ended)).status.code == pb.OK
        assert len(await members(front, "G")) == 1
        assert (await front.client.call("NotifyClientTermination", ended)).status.code == pb.OK
        assert await members(front, "G") == []
        answer = await other.call("NotifyClientTermination", ended)
        assert answer.status.code == pb.UNRECOGNIZED_CLIENT_TYPE


async def test_a_client_without_settings_that_terminates_has_its_messages_handed_on(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    await front.receive("T", "G", 1, auto_renew=True)
    answer = await front.client.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    assert answer.status.code == pb.OK and front.proxy._renewals.owners() == set()
    answer = await front.client.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    assert answer.status.code == pb.UNRECOGNIZED_CLIENT_TYPE, "it holds nothing any more"
    assert await bodies_soon(front) == [b"x"]


async def test_a_client_without_settings_that_has_gone_has_its_messages_handed_on(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    (message,) = await front.receive("T", "G", 1, auto_renew=True)
    client = front.proxy._clients.find(key_of("client-1"))
    assert client is not None and len(await members(front, "G")) == 1
    client.heard_at -= SILENT_S_MAX + 1
    beat = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER)
    answer = await front.client.call("Heartbeat", beat)
    assert answer.status.code == pb.UNRECOGNIZED_CLIENT_TYPE, "so that it sends its settings"
    await front.proxy._sessions.forget_silent()
    assert front.proxy._renewals.owners() == {(key_of("client-1"), "G")}, "it was heard"
    client.heard_at -= SILENT_S_MAX + 1
    await front.proxy._sessions.forget_silent()
    assert front.proxy._renewals.owners() == set()
    assert await members(front, "G") == [], "nobody else has received in the group"
    assert await bodies_soon(front) == [b"x"]
    assert message.body == b"x"


async def test_what_a_client_gets_that_has_left_meanwhile_is_handed_on(front: Front) -> None:
    await front.create_topic("T", queues=1)
    request = receive_request("T", "G", auto_renew=True, long_polling_timeout=Duration(seconds=20))
    receiving = asyncio.create_task(front.client.receive(request))
    await pop_is_held(front, "G", "T")
    await front.client.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    await front.send("T", b"x")
    _, (message,) = await receiving
    assert message.body == b"x" and front.proxy._renewals.owners() == {(key_of("client-1"), "G")}
    await front.proxy._sessions.forget_silent()
    assert front.proxy._renewals.owners() == set()
    assert await bodies_soon(front) == [b"x"]


async def test_settings_that_are_refused_leave_nothing_behind(front: Front) -> None:
    await front.create_topic("T")
    await front.create_topic("tx", "TRANSACTION")
    known = front.proxy._membership._groups
    for settings in (consumer("none", "no-such-topic"), producer("tx", "no-such-topic")):
        with pytest.raises(GRPCError):
            await answer_to(front, settings)
    assert known == {} and front.proxy._transactions._presences == {}
    async with front.client.telemetry(consumer("G")):
        with pytest.raises(GRPCError):
            await answer_to(front, consumer("none", "no-such-topic"))
        assert list(known) == ["G"], "the settings from before are in force"


async def test_of_other_settings_what_only_the_former_had_is_given_up(front: Front) -> None:
    await front.create_topic("T")
    await front.create_topic("tx", "TRANSACTION")
    other = front.other("client-2")
    async with (
        front.client.telemetry(consumer("G")),
        other.telemetry(producer("tx")),
        front.client.telemetry(consumer("H")),
        other.telemetry(producer("T")),
    ):
        assert list(front.proxy._membership._groups) == ["H"]
        assert front.proxy._transactions._presences == {}


async def bodies_soon(front: Front) -> list[bytes]:
    """Return the bodies that another client receives, where what is held is not seen."""
    request = receive_request("T", "G", long_polling_timeout=Duration(seconds=20))
    _, messages = await front.other("client-2").receive(request)
    return [message.body for message in messages]


async def test_what_a_terminated_client_was_handling_comes_again_soon(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    kind: Any = pb.PUSH_CONSUMER
    async with front.client.telemetry(consumer(kind=kind)):
        await front.receive("T", "G", 1, auto_renew=True)
        await front.client.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    assert await bodies_soon(front) == [b"x"]


def test_a_producer_gets_its_limits() -> None:
    settings = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(max_body_size=1))
    merged = merged_settings(settings, None)
    assert merged.client_type == pb.PRODUCER and merged.publishing.max_body_size == 4 * 1024 * 1024
    backoff = merged.backoff_policy.exponential_backoff
    assert backoff.initial == Duration(nanos=10_000_000) and backoff.max == Duration(seconds=1)
    assert settings.publishing.max_body_size == 1


def test_a_consumer_gets_what_its_group_says() -> None:
    settings = pb.Settings(subscription=pb.Subscription(group=pb.Resource(name="G")))
    group = GroupConfig(group="G", retry_max_times=2, consume_message_orderly=True)
    merged = merged_settings(settings, group)
    assert merged.subscription.fifo and merged.subscription.receive_batch_size == 32
    assert merged.backoff_policy.max_attempts == 3
    delays = merged.backoff_policy.customized_backoff.next
    assert [delay.seconds for delay in delays][:5] == [1, 5, 10, 30, 60]
    assert delays[-1].seconds == 7200 and len(delays) == 18


def test_a_groups_own_policy_counts() -> None:
    settings = pb.Settings(subscription=pb.Subscription())
    growing = GroupConfig(
        group="G",
        retry_policy={"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1500, "max": 9000}},
    )
    backoff = merged_settings(settings, growing).backoff_policy.exponential_backoff
    assert backoff.initial == Duration(seconds=1, nanos=500_000_000) and backoff.max == Duration(seconds=9)
    assert backoff.multiplier == 2
    listed = GroupConfig(
        group="G", retry_policy={"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2000]}}
    )
    customized = merged_settings(settings, listed).backoff_policy.customized_backoff
    assert [delay.seconds for delay in customized.next] == [1, 2]
