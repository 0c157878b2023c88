"""Hooks around the handling of messages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.client.pops import record
from tests.live import serving

from cometmq import Consumer, Message, Producer, Retry, Start
from cometmq.client.handling.handle_hooks import HandleHooks
from cometmq.errors import IllegalType
from cometmq.format.stored import message_as_stored
from cometmq.message import StoredMessage
from cometmq.testing.embedded_broker import until

PATIENCE_S = 120
MESSAGES = [message_as_stored(record(0, b"body"))]


class Notes:
    """Writes down what it sees."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    @contextmanager
    def handling(self, group: str, messages: Sequence[StoredMessage]) -> Iterator[None]:
        self.seen.append(f"{self.name} begins: {group}, {b''.join(one.body for one in messages).decode()}")
        try:
            yield
        except Retry:
            self.seen.append(f"{self.name}: again")
            raise
        self.seen.append(f"{self.name} ends")


def test_the_first_hook_is_the_outermost_and_sees_what_is_raised() -> None:
    seen: list[str] = []
    hooks = HandleHooks("billing", [Notes("outer", seen), Notes("inner", seen)])
    with hooks.around(MESSAGES):
        seen.append("handled")
    with pytest.raises(Retry), hooks.around(MESSAGES):
        raise Retry
    begin = ["outer begins: billing, body", "inner begins: billing, body"]
    assert seen == [*begin, "handled", "inner ends", "outer ends", *begin, "inner: again", "outer: again"]


def test_without_hooks_nothing_happens() -> None:
    with HandleHooks().around(MESSAGES) as nothing:
        assert nothing is None


@pytest.mark.parametrize("pop", [False, True])
async def test_a_consumer_calls_its_hooks(tmp_path: Path, pop: bool) -> None:
    seen: list[str] = []
    async with serving(tmp_path) as live, Producer(live.name_server) as producer:
        await producer.send(Message("Orders", b"x" * 5_000))
        consumer = Consumer(
            live.name_server, "billing", start=Start.FIRST, pop=pop, hooks=[Notes("hook", seen)]
        )
        consumer.on("Orders")(lambda _: seen.append("handled"))
        async with consumer:
            assert await until(lambda: len(seen) == 3, PATIENCE_S)
    assert seen == [f"hook begins: billing, {'x' * 5_000}", "handled", "hook ends"]


def test_hooks_are_a_list() -> None:
    with pytest.raises(IllegalType, match="hooks"):
        Consumer("127.0.0.1:9876", "billing", hooks=Notes("one", []))  # type: ignore[arg-type] # that is the fault
