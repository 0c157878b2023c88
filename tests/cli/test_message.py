import asyncio

import pytest
from tests.cli.conftest import Run
from tests.live import BROKER, Live

from cometmq.client import Consumer, Producer
from cometmq.message import Message, StoredMessage


@pytest.fixture
def sent(cometmq: Run, live: Live) -> dict[str, str]:
    """What became of a message with a key."""
    assert live.broker
    cometmq("topic", "create", "orders", "--queues", "1")
    (result,) = cometmq("send", "orders", "hello", "--tags", "paid", "--key", "42", "--json").values
    return dict(result)


def test_a_message_is_found_by_ids_by_key_and_by_time(cometmq: Run, sent: dict[str, str]) -> None:
    for asked in (
        ("--id", sent["offset_id"]),
        ("--id", sent["message_id"], "--topic", "orders"),
        ("--key", "42", "--topic", "orders"),
        ("--key", "42", "--topic", "orders", "--limit", "9" * 20),
        ("--time", "2020-01-01..", "--topic", "orders"),
    ):
        (found,) = cometmq("message", "find", *asked, "--json").values
        assert (found["body"], found["offset_id"]) == ("hello", sent["offset_id"])
    out = cometmq("message", "find", "--id", sent["offset_id"]).out
    assert "body  hello" in out and "tags  paid" in out


@pytest.mark.usefixtures("live")
def test_of_topics_whose_hashes_are_the_same_only_the_one_asked_for_is_found(cometmq: Run) -> None:
    for topic in ("shard1a", "shard2B"):
        assert cometmq("send", topic, topic, "--key", "k").code == 0
        assert cometmq("send", topic, f"newer {topic}", "--key", "k", "--key", "other").code == 0
    for topic in ("shard1a", "shard2B"):
        found = cometmq("message", "find", "--topic", topic, "--key", "k", "--json").values
        assert [one["body"] for one in found] == [f"newer {topic}", topic]
        (newest,) = cometmq(
            "message", "find", "--topic", topic, "--key", "k", "--limit", "1", "--json"
        ).values
        assert newest["body"] == f"newer {topic}"
    offset_id = found[0]["offset_id"]
    wrong = cometmq("message", "resend", offset_id, "--topic", "shard1a", "--to", "shard1a")
    assert wrong.failed(3, "it is one of topic shard2B")


def test_messages_are_printed_a_line_each(cometmq: Run, sent: dict[str, str]) -> None:
    cometmq("send", "orders", "other", "--tags", "lost")
    assert [line.split()[1:] for line in cometmq("message", "print", "orders").out.splitlines()] == [
        ["0:0", "paid", "hello"],
        ["0:1", "lost", "other"],
    ]
    (one,) = cometmq("message", "print", "orders", "--tags", "lost", "--json").values
    assert one["body"] == "other"
    assert len(cometmq("message", "print", "orders", "--limit", "1", "--queue", "0", "--json").values) == 1
    assert cometmq("message", "print", "orders", "--time", "..2020-01-01") == (3, "", "not found\n")
    assert cometmq("message", "print", "orders", "--tags", "||").failed(2, "--tags")
    assert sent["topic"] == "orders"


def test_a_message_is_sent_again_to_a_topic(cometmq: Run, sent: dict[str, str]) -> None:
    again = cometmq("message", "resend", sent["offset_id"], "--to", "orders")
    assert again.out == f"orders: {BROKER} queue 0 offset 1\n"
    (result,) = cometmq("message", "resend", sent["offset_id"], "--to", "orders", "--json").values
    assert result["queue_offset"] == 2


def test_a_member_handles_a_message_directly(cometmq: Run, live: Live, sent: dict[str, str]) -> None:
    handled: list[bytes] = []

    async def main() -> None:
        consumer = Consumer(live.name_server, "billing")
        arrived = asyncio.Event()

        @consumer.on("orders")
        async def handle(message: StoredMessage) -> None:
            handled.append(message.body)
            arrived.set()
            if len(handled) == 3:
                raise ValueError("no")

        resend = ("message", "resend", sent["message_id"], "--topic", "orders", "--group", "billing")
        async with consumer:
            await arrived.wait()
            good = await asyncio.to_thread(cometmq, *resend)
            assert good.code == 0 and good.out.startswith(f"{consumer.client_id}: CR_SUCCESS in ")
            bad = await asyncio.to_thread(cometmq, *resend, "--client", consumer.client_id, "--json")
            (result,) = bad.values
            assert (bad.code, result["handled"], result["remark"]) == (1, False, "ValueError('no')")

    asyncio.run(main())
    assert handled == [b"hello"] * 3


def test_what_waits_is_shown_by_kind_and_by_when_it_is_due(cometmq: Run, live: Live) -> None:
    async def send() -> None:
        async with Producer(live.name_server) as producer:
            for _ in range(2):
                await producer.send(Message("orders", b"x", delay_level=17))
            await producer.send(Message("orders", b"x", delay_ms=2 * 86_400_000))

    cometmq("topic", "create", "orders", "--queues", "1")
    asyncio.run(send())
    (found,) = cometmq("message", "waiting", "--json").values
    delayed, timed = found["waiting"]
    assert (delayed["kind"], delayed["topic"], delayed["message_count"]) == ("delayed", "orders", 2)
    assert (timed["kind"], timed["due"]["later"], found["unread"]) == ("timed", 1, [])
    head, _, *lines = cometmq("message", "waiting").out.splitlines()
    assert head.split() == [*("kind", "topic", "group", "waiting"), *timed["due"], "last", "due"]
    assert [line.split()[:-1] for line in lines] == [
        ["delayed", "orders", "-", "2", "0", "0", "0", "2", "0", "0"],
        ["timed", "orders", "-", "1", "0", "0", "0", "0", "0", "1"],
    ]
    (one,) = cometmq("message", "waiting", "--kind", "timed", "--topic", "orders", "--json").values
    assert [line["kind"] for line in one["waiting"]] == ["timed"]
    out = cometmq("message", "waiting", "--kind", "delayed", "--read", "1").out
    assert out.splitlines()[-1].startswith(f"1 records of SCHEDULE_TOPIC_XXXX on {BROKER} were not read")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("find",), 2, ("--id", "--key", "--time")),
        (("find", "--key", "42"), 2, ("--topic",)),
        (("find", "--key", "43", "--topic", "orders"), 3, ("'43'",)),
        (("find", "--id", "A" * 32), 2, ("give its topic",)),
        (("find", "--id", "A" * 32, "--topic", "orders"), 3, ("no message",)),
        (("find", "--key", "42", "--topic", "order"), 3, ("nearest 'orders'",)),
        (("resend", "A" * 32), 2, ("--group", "--to")),
    ],
)
def test_what_cannot_be_done_is_told_with_the_remedy(
    cometmq: Run, sent: dict[str, str], arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    assert sent["topic"] == "orders"
    assert cometmq("message", *arguments).failed(code, *words)
