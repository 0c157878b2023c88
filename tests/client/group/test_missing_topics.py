"""A subscription to a topic that does not exist is told of, and the member can be seen."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.shop import shop

from cometmq.client import LitePullConsumer, SimpleConsumer
from cometmq.client.group import missing_topics
from cometmq.errors import FormatError
from cometmq.message import Message, StoredMessage

WARNING = "group readers subscribes to topic 'Ordres', which no name server knows (is 'Orders' meant?)"


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_topics, "GRACE_S", 0.05)
    monkeypatch.setattr(missing_topics, "REPEAT_S", 0.1)


async def ignore(_: StoredMessage) -> None:
    """Handle a message without anything to do."""


async def has_warned(caplog: pytest.LogCaptureFixture, count: int = 1) -> None:
    """Wait until the warning was logged so often."""
    while caplog.text.count(WARNING) < count:  # noqa: ASYNC110 a log has no event
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("pop", [False, True])
async def test_a_mistyped_topic_is_warned_of_again_and_again_and_its_member_is_seen(
    pop: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(tmp_path) as here:
        consumer = here.consumer(pop=pop)
        consumer.subscribe("Ordres", ignore)
        async with consumer:
            assert "Ordres" in {one.topic for one in (await here.group()).subscriptions.values()}
            await has_warned(caplog, 2)
        with pytest.raises(FormatError):  # the broker has no member of the group any more
            await here.group()


async def test_so_is_one_that_is_subscribed_to_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_topics, "REPEAT_S", 3_600)
    async with shop(tmp_path) as here:
        consumer = here.consumer()
        consumer.subscribe("Orders", ignore)
        async with consumer:
            consumer.subscribe("Ordres", ignore)
            await has_warned(caplog)


@pytest.mark.parametrize("kind", [LitePullConsumer, SimpleConsumer])
async def test_consumers_that_are_polled_warn_too(
    kind: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(tmp_path) as here, kind(here.live.name_server, "readers") as consumer:
        await consumer.subscribe("Ordres")
        await has_warned(caplog)


async def test_a_topic_that_is_created_in_time_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_topics, "GRACE_S", 0.5)
    got = asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        got.set()

    async with shop(tmp_path) as here:
        consumer = here.consumer()
        consumer.subscribe("Later", handle)
        async with consumer:
            await here.producer.send(Message("Later", b"x"))
            await got.wait()
            assert "which no name server knows" not in caplog.text
