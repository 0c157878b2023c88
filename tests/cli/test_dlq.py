import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.live import Live

from cometmq.admin import dead_letters, messages
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Start
from cometmq.client.handling.outcome import DeadLetter
from cometmq.errors import NetworkError, NotFound
from cometmq.message import StoredMessage


@pytest.fixture
def letters(cometmq: Run, live: Live) -> list[str]:
    """The ids of two dead letters of the group billing."""
    cometmq("topic", "create", "orders", "--queues", "1")
    cometmq("send", "orders", text="0\n1\n")

    async def main() -> list[str]:
        consumer = Consumer(live.name_server, "billing", start=Start.FIRST)

        @consumer.on("orders")
        async def refuse(_: StoredMessage) -> None:
            raise DeadLetter

        async with consumer, TopicAdmin(live.name_server) as admin:
            while True:
                try:
                    found = [letter.message_id async for letter in dead_letters.letters(admin, "billing")]
                except NotFound:
                    found = []
                if len(found) == 2:
                    return found

    return asyncio.run(main())


def test_dead_letters_are_listed_resent_and_exported(
    cometmq: Run, letters: list[str], tmp_path: Path
) -> None:
    ((line,),) = cometmq("dlq", "list", "--json").values
    assert (line["group"], line["letters"]) == ("billing", 2)
    assert cometmq("dlq", "list").out.splitlines()[2].split()[:2] == ["billing", "2"]
    (listed,) = cometmq("dlq", "list", "billing", "--json").values
    assert [letter["message_id"] for letter in listed] == letters
    rows = cometmq("dlq", "list", "billing").out.splitlines()[2:]
    assert [row.split()[1:3] for row in rows] == [[letter, "orders"] for letter in letters]
    exported = cometmq("dlq", "export", "billing")
    assert [value["original_topic"] for value in exported.values] == ["orders"] * 2
    target = tmp_path / "letters.jsonl"
    assert cometmq("dlq", "export", "billing", "--out", str(target)) == (0, "", "")
    assert [json.loads(line) for line in target.read_text().splitlines()] == exported.values
    (sent,) = cometmq("dlq", "resend", "billing", "--id", letters[1], "--json").values
    assert [one["topic"] for one in sent] == ["%RETRY%billing"]
    assert cometmq("dlq", "resend", "billing", "--all", "--to-topic").out.endswith("2 resent\n")
    bodies = [message["body"] for message in cometmq("consume", "orders", "--json").values]
    assert sorted(bodies) == ["0", "0", "1", "1"]


@pytest.mark.usefixtures("letters")
def test_what_cannot_be_done_is_told_with_the_remedy(cometmq: Run) -> None:
    assert cometmq("dlq", "list", "nobody").failed(3, "nobody", "no dead letters")
    assert cometmq("dlq", "resend", "billing").failed(2, "--id", "--all")
    assert cometmq("dlq", "resend", "billing", "--id", "x").failed(3, "no dead letter x")


def test_when_a_letter_fails_those_that_were_sent_are_printed_and_the_others_named(
    cometmq: Run, letters: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    send_again = messages.send_again

    async def fail_second(cluster: TopicAdmin, letter: StoredMessage, *place: str, **changes: str) -> Any:
        if letter.message_id == letters[1]:
            raise NetworkError("lost")
        return await send_again(cluster, letter, *place, **changes)

    monkeypatch.setattr(dead_letters, "send_again", fail_second)
    (listed,) = cometmq("dlq", "list", "billing", "--json").values
    second = listed[1]["offset_id"]
    partly = cometmq("dlq", "resend", "billing", "--all")
    assert partly.failed(1, f"1 of 2 dead letters were sent again, then {second} failed: lost", "next time")
    assert partly.out.endswith("1 resent\n")
    assert cometmq("dlq", "resend", "billing", "--id", second).failed(1, "lost")
