"""What the log says of popped messages whose handlers fail; the rest is in ``test_consumption``."""

import pytest
from tests.client.members import settled
from tests.client.pops import PopBroker, consuming

from cometmq.client import DeadLetter
from cometmq.message import StoredMessage


@pytest.mark.parametrize(
    ("error", "reconsume_times", "said"),
    [
        (ValueError("no"), 0, ["try 1 of 3: delivered again in about 10 s"]),
        (
            ValueError("no"),
            2,
            ["try 3 of 3: becomes a dead letter", "try 3 of 3; its handler raised ValueError('no')"],
        ),
        (DeadLetter("who?"), 0, ["try 1 of 3; its handler raised DeadLetter('who?')"]),
    ],
)
async def test_a_failure_is_logged_with_what_becomes_of_the_message(
    error: Exception, reconsume_times: int, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: StoredMessage) -> None:
        raise error

    broker = PopBroker()
    broker.put(b"0", reconsume_times=reconsume_times)
    async with consuming(broker, fail, max_reconsume_times=2):
        await settled(lambda: bool(broker.changes) or broker.acknowledged() == {0})
    assert [line.endswith(end) for line, end in zip(caplog.messages, said, strict=True)] == [True] * len(said)
    assert ("a dead letter in topic %DLQ%readers" in caplog.text) is ("; its handler" in said[-1])
