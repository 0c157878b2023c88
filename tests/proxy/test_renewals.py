import time

import pytest
from tests.kit.grpc_clients import STORED
from tests.proxy.conftest import Front, key_of

from cometmq.errors import NetworkError
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.receipts import ClientReceipt, parse_client_receipt
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.renewals import FAILURES_MAX, Renewals
from cometmq.proxy.settings import ProxySettings

C = key_of("c")


def popped(invisible_ms: int) -> ClientReceipt:
    """Return the handle of a message that a broker has just delivered."""
    handle = ReceiptHandle(0, int(time.time() * 1000), invisible_ms, 0, RetryFlag.NONE, "embedded", 0, 7)
    return ClientReceipt(handle, 100)


async def test_a_handle_is_renewed_before_it_expires_and_used_for_the_first_one(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    renewals = Renewals(front.proxy._brokers)
    (message,) = await front.receive("T", "G", 1)
    received = parse_client_receipt(message.system_properties.receipt_handle)
    handle = received.handle
    receipt = received._replace(handle=handle._replace(invisible_ms=5_000))
    renewals.add(C, "G", STORED, receipt)
    text = str(receipt)
    await renewals.renew()
    async with renewals.present(C, "G", text) as renewed:
        assert renewed.handle.invisible_ms == 60_000 and renewed.handle.offset == handle.offset
    assert renewals._held[C, "G"] == {}


async def test_a_handle_with_time_left_stays(front: Front) -> None:
    renewals = Renewals(front.proxy._brokers)
    text = str(receipt := popped(60_000))
    renewals.add(C, "G", STORED, receipt)
    await renewals.renew()
    async with renewals.present(C, "G", text) as present:
        assert str(present) == text


async def test_so_many_messages_may_be_handled_by_a_client_and_by_all(front: Front) -> None:
    limits = ProxySettings(handled_messages_max=2, handled_messages_total_max=3)
    renewals, other = Renewals(front.proxy._brokers, limits), key_of("d")
    receipts = [popped(60_000 + number) for number in range(3)]
    for receipt in (*receipts[:2], receipts[0]):
        assert renewals.has_room(C, "G")
        renewals.add(C, "G", STORED, receipt)
        if receipt is receipts[1]:
            assert not renewals.has_room(C, "G")
            async with renewals.present(C, "G", str(receipt)):
                pass
    renewals.add(C, "G", STORED, receipts[1])
    assert not renewals.has_room(C, "G") and renewals.has_room(C, "H") and renewals.has_room(other, "G")
    renewals.add(other, "G", STORED, receipts[2])
    assert not renewals.has_room(C, "H") and not renewals.has_room(other, "G")
    await renewals.release(C, "G")
    assert renewals.has_room(C, "G") and renewals._count == 1


async def test_nothing_long_is_kept_of_a_message_that_is_handled(front: Front) -> None:
    renewals = Renewals(front.proxy._brokers)
    text = str(receipt := popped(60_000))
    renewals.add(C, "G", STORED, receipt)
    held = renewals._held[C, "G"][text].message
    assert (held.body, held.properties, held.topic) == (b"", {}, STORED.topic)


async def test_a_handle_that_cannot_be_renewed_is_given_up(front: Front) -> None:
    renewals = Renewals(front.proxy._brokers)
    text = str(receipt := popped(1))
    renewals.add(C, "G", STORED, receipt)  # of a topic that does not exist
    for _ in range(FAILURES_MAX):
        assert text in renewals._held[C, "G"]
        await renewals.renew()
    assert renewals._held[C, "G"] == {}
    with pytest.raises(Failure) as caught:
        async with renewals.present(C, "G", text):
            pass
    assert caught.value.code == pb.INVALID_RECEIPT_HANDLE


async def test_a_handle_whose_acknowledgement_fails_is_still_prolonged(front: Front) -> None:
    renewals = Renewals(front.proxy._brokers)
    text = str(receipt := popped(60_000))
    renewals.add(C, "G", STORED, receipt)
    with pytest.raises(NetworkError):
        async with renewals.present(C, "G", text):
            raise NetworkError("the broker is gone")
    async with renewals.present(C, "G", text) as present:
        assert str(present) == text and text in renewals._held[C, "G"]
    assert renewals._held[C, "G"] == {}


async def test_a_message_is_hidden_longer_each_time(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    (message,) = await front.receive("T", "G", 1)
    receipt = parse_client_receipt(message.system_properties.receipt_handle)
    renewals = Renewals(front.proxy._brokers)
    renewals.add(C, "G", STORED, receipt)
    (held,) = renewals._held[C, "G"].values()
    times_ms = []
    for _ in range(3):
        held.ends_ms = 0
        await renewals.renew()
        times_ms.append(held.receipt.handle.invisible_ms)
    assert times_ms == [60_000, 180_000, 300_000]


async def test_the_handles_of_a_client_are_not_those_of_another_users_with_its_id(front: Front) -> None:
    renewals = Renewals(front.proxy._brokers)
    ann, bob = key_of("c", "ann"), key_of("c", "bob")
    text = str(receipt := popped(60_000))
    renewals.add(ann, "G", STORED, receipt)
    async with renewals.present(bob, "G", text):
        pass
    await renewals.release(bob, "G")
    assert renewals.owners() == {(ann, "G")} and text in renewals._held[ann, "G"]
