"""A message in a handler, and what becomes of it."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from tests.faststream.stored import stored_message

from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.faststream.message import Delivery, decode, parse


async def test_headers_are_the_properties_that_rocketmq_does_not_reserve() -> None:
    properties = {"TAGS": "paid", "size": "5", "content-type": "application/json", "correlation_id": "c1"}
    message = await parse(Delivery(stored_message(b'{"number": 7}', properties)))
    assert message.headers == {name: value for name, value in properties.items() if name != "TAGS"}
    assert (message.correlation_id, message.message_id, message.reply_to) == ("c1", "id", "")
    assert message.stored.body == b'{"number": 7}'
    assert await decode(message) == {"number": 7}


async def test_a_request_says_whom_to_reply_to() -> None:
    message = await parse(Delivery(stored_message(b"", {"REPLY_TO_CLIENT": "10.0.0.7@1"})))
    assert message.reply_to == "10.0.0.7@1" and "REPLY_TO_CLIENT" not in message.headers


async def test_the_first_decision_counts() -> None:
    delivery = Delivery(stored_message())
    message = await parse(delivery)
    await message.nack(delay_level=3)
    await message.ack()
    await message.nack(delay_level=5)
    await message.reject()
    with pytest.raises(Retry) as raised:
        delivery.settle()
    assert raised.value.delay_level == 3


async def test_a_message_is_done_buried_or_delivered_again() -> None:
    done, buried, undecided = (Delivery(stored_message()) for _ in range(3))
    await (await parse(done)).ack()
    await (await parse(buried)).reject()
    done.settle()
    with pytest.raises(DeadLetter):
        buried.settle()
    with pytest.raises(Retry):
        undecided.settle()


async def test_a_delay_level_that_no_broker_has_is_refused() -> None:
    message = await parse(Delivery(stored_message()))
    with pytest.raises(ValueError, match="delay_level 19: give an int from 0 to 18"):
        await message.nack(delay_level=19)
