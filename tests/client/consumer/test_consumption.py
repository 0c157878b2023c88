"""A running push consumer without a broker: what it subscribes to, and messages that operators send."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.members import GROUP, settings_of
from tests.pulled import stored

from cometmq.client.consumer.consumption import ConsumerSettings, Consumption
from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.client.handling.pulling import PullOptions
from cometmq.client.handling.start import Start
from cometmq.client.handling.subscription import Subscription
from cometmq.io.clock import ManualClock
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import MessageModel
from cometmq.wire.bodies.running import ConsumedDirectly, ConsumeResult

RETRIES = f"%RETRY%{GROUP}"


async def ignore(_: StoredMessage) -> None:
    """Handle a message by doing nothing."""


def consumption_of(*subscriptions: Subscription, broadcasting: Path | None = None) -> Consumption:
    member = settings_of("one", clock=ManualClock())
    if broadcasting is not None:
        member = member._replace(model=MessageModel.BROADCASTING, strategy=None, offsets_path=broadcasting)
    settings = ConsumerSettings(member, Start.FIRST, 2, None, 1_000, 1_000, PullOptions(), trace=False)
    return Consumption(settings, {one.topic: one for one in subscriptions})


def ordered_topics(running: Consumption) -> dict[str, bool]:
    return {topic: interest.ordered for topic, interest in running._topic_interests().items()}


async def test_the_retry_topic_is_ordered_if_all_topics_are() -> None:
    orders, prices = Subscription("Orders", ignore, ordered=True), Subscription("Prices", ignore)
    assert ordered_topics(consumption_of(orders)) == {"Orders": True, RETRIES: True}
    assert ordered_topics(consumption_of(orders, prices)) == {"Orders": True, "Prices": False, RETRIES: False}


async def test_broadcasting_has_no_retry_topic(tmp_path: Path) -> None:
    running = consumption_of(Subscription("Orders", ignore), broadcasting=tmp_path / "offsets.json")
    assert ordered_topics(running) == {"Orders": False}


async def test_a_queue_is_pulled_with_its_subscriptions_filter() -> None:
    running = consumption_of(
        Subscription("Orders", ignore, tags="paid", ordered=True), Subscription("Prices", ignore, sql="a = 1")
    )
    found = {
        topic: (one._tags, one._sql, one._ordered)
        for topic in ("Orders", "Prices", RETRIES)
        for one in [running._consume(MessageQueue(topic, "a", 0)).pulling]
    }
    assert found == {
        "Orders": ("paid", None, True),
        "Prices": ("*", "a = 1", False),
        RETRIES: ("*", None, False),
    }


@pytest.mark.parametrize(
    ("failure", "result", "remark"),
    [
        (None, ConsumeResult.SUCCESS, None),
        (Retry(delay_level=3), ConsumeResult.LATER, "again after delay level 3"),
        (DeadLetter("never"), ConsumeResult.LATER, "never"),
        (ValueError("no"), ConsumeResult.THROW_EXCEPTION, "ValueError('no')"),
    ],
)
async def test_an_operator_learns_what_a_handler_did(
    failure: Exception | None, result: ConsumeResult, remark: str | None
) -> None:
    async def handle(_: StoredMessage) -> None:
        if failure is not None:
            raise failure

    outcome = await consumption_of(Subscription("Orders", handle))._calls.handle_directly(stored(0))
    assert outcome == ConsumedDirectly(result, False, remark=remark)


async def test_a_retry_or_dead_letter_is_handled_as_a_message_of_its_first_topic() -> None:
    got: list[str] = []

    async def handle(message: StoredMessage) -> None:
        got.append(message.topic)

    running = consumption_of(Subscription("Orders", handle, ordered=True))
    letter = replace(stored(0, f"%DLQ%{GROUP}"), properties={"RETRY_TOPIC": "Orders"})
    outcome = await running._calls.handle_directly(letter)
    assert (outcome.result, outcome.order, got) == (ConsumeResult.SUCCESS, True, ["Orders"])


async def test_a_message_without_a_subscription_fails_and_names_the_topic() -> None:
    outcome = await consumption_of(Subscription("Orders", ignore))._calls.handle_directly(stored(0, "Others"))
    assert outcome.result is ConsumeResult.THROW_EXCEPTION
    assert outcome.remark is not None and "no handler for topic 'Others'" in outcome.remark
