"""Commands: what is to be published."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand

from cometmq.faststream.command import RocketMQPublishCommand, RocketMQResponse


def test_a_response_becomes_a_command_with_its_options() -> None:
    response = RocketMQResponse("a bill", headers={"a": "b"}, correlation_id="c1", keys=("42",), delay_ms=5)
    cmd = response.as_publish_command()
    assert (cmd.body, cmd.headers, cmd.correlation_id) == ("a bill", {"a": "b"}, "c1")
    assert cmd.options == {"keys": ("42",), "delay_ms": 5}
    assert RocketMQPublishCommand.from_cmd(cmd) is cmd


def test_a_command_of_faststream_becomes_one_of_ours() -> None:
    plain = PublishCommand(
        [1, 2], destination="bills", headers={"a": "b"}, correlation_id="c1", _publish_type=PublishType.REPLY
    )
    cmd = RocketMQPublishCommand.from_cmd(plain)
    assert (cmd.body, cmd.destination, cmd.headers) == ([1, 2], "bills", {"a": "b"})
    assert (cmd.correlation_id, cmd.publish_type, cmd.options) == ("c1", PublishType.REPLY, {})
    assert RocketMQPublishCommand.from_cmd(plain, batch=True).batch_bodies == (1, 2)


def test_options_that_are_set_stay() -> None:
    cmd = RocketMQPublishCommand("", tags="paid")
    cmd.add_options({"tags": "new", "keys": ("42",)})
    assert cmd.options == {"tags": "paid", "keys": ("42",)}
