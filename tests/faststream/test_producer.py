"""How bodies are encoded; that they are sent is in test_services.py."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream.exceptions import IncorrectState

from cometmq.errors import IllegalField
from cometmq.faststream.command import RocketMQPublishCommand
from cometmq.faststream.producer import MessageProducer


async def test_headers_content_type_and_correlation_id_become_properties() -> None:
    cmd = RocketMQPublishCommand({}, topic="orders", headers={"size": 5}, correlation_id="c1", tags="paid")
    message = await MessageProducer().encode(cmd, {"number": 7})
    assert (message.topic, message.tags) == ("orders", "paid")
    assert message.body.replace(b" ", b"") == b'{"number":7}'
    assert message.properties == {"size": "5", "content-type": "application/json", "correlation_id": "c1"}


async def test_bytes_are_sent_as_they_are() -> None:
    message = await MessageProducer().encode(RocketMQPublishCommand(b"", topic="orders"), b"\x00\xff")
    assert (message.body, message.properties) == (b"\x00\xff", {})


async def test_an_option_of_the_wrong_type_is_refused() -> None:
    cmd = RocketMQPublishCommand(b"", topic="orders", keys="42")  # type: ignore[arg-type] # that is the fault
    with pytest.raises(IllegalField, match="give them as a tuple"):
        await MessageProducer().encode(cmd, b"")


async def test_nothing_is_sent_before_the_broker_has_connected() -> None:
    with pytest.raises(IncorrectState, match=r"await broker.connect\(\)"):
        await MessageProducer().publish(RocketMQPublishCommand(b"", topic="orders"))
