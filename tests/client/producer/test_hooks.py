"""What hooks see of a send, and what they cannot do to it."""

import logging
from pathlib import Path

import pytest
from tests.client.brokers import Broker, cluster
from tests.live import serving

from cometmq.client import Producer
from cometmq.client.producer.hooks import Attempt
from cometmq.message import Message
from cometmq.wire.codes import ResponseCode


class Notes:
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def before_send(self, attempt: Attempt) -> None:
        assert attempt.answer is None and attempt.result is None and attempt.error is None
        self.seen.append(("before", attempt.queue.broker_name, len(attempt.ready.body)))

    def after_send(self, attempt: Attempt) -> None:
        outcome = type(attempt.result or attempt.error).__name__
        self.seen.append((outcome, attempt.queue.broker_name, len(attempt.ready.message_ids)))


class Rogue:
    def before_send(self, attempt: Attempt) -> None:
        raise ValueError(attempt.address)

    after_send = before_send


async def test_each_try_is_seen_before_and_after() -> None:
    notes = Notes()
    busy = [ResponseCode.SYSTEM_BUSY] * 9
    async with (
        cluster(Broker("a", *busy), Broker("b", *busy[:1])) as name_server,
        Producer(name_server, hooks=[notes], tries=11) as producer,
    ):
        await producer.send(Message("Orders", b"four"))
    outcomes = [outcome for outcome, _, _ in notes.seen[1::2]]
    assert {what for what, _, _ in notes.seen[::2]} == {"before"}
    assert set(outcomes[:-1]) == {"RemoteError"} and outcomes[-1] == "SendResult"


async def test_batches_and_oneway_sends_are_seen_too(tmp_path: Path) -> None:
    notes = Notes()
    async with serving(tmp_path) as live, Producer(live.name_server, hooks=[notes]) as producer:
        await producer.send_batch([Message("Orders", b"x")] * 3)
        await producer.send_oneway(Message("Orders", b"x"))
    assert [(what, count) for what, _, count in notes.seen[1::2]] == [("SendResult", 3), ("NoneType", 1)]


async def test_a_hook_that_fails_is_logged_and_stops_no_send(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        notes = Notes()
        async with serving(tmp_path) as live, Producer(live.name_server, hooks=[Rogue(), notes]) as producer:
            await producer.send(Message("Orders", b"x"))
        assert len(notes.seen) == 2

    with caplog.at_level(logging.ERROR):
        await main()
    assert caplog.text.count("a hook failed") == 2
