"""A member whose pulls name a newer version of its subscription than its last heartbeat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, Client, bodies, pull_header, serving

from cometmq.broker.state import newer_subscriptions
from cometmq.wire.bodies import ConsumerData, Heartbeat, SubscriptionData, encode, tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PullFlag, PullHeader

PULL = RequestCode.PULL_MESSAGE
HOW = RequestCode.GET_CONSUMER_RUNNING_INFO
NOT_LATEST = ResponseCode.SUBSCRIPTION_NOT_LATEST
OLD = tag_subscription("T", "A", 1)
NEW = tag_subscription("T", "B", 2)
WITHOUT = b'{"jstack":null,"mqTable":{},"properties":{},"statusTable":{},"userConsumerInfo":{}}'


@asynccontextmanager
async def member(root: Path, *, bulk: bool = True) -> AsyncIterator[Bench]:
    """Serve messages ``a`` and ``b`` to a member of group cg, which wants those of tag A."""
    async with serving(root, enable_property_filter=True, bulk=bulk) as bench:
        for tag in "AB":
            await bench.send("T", tag.lower().encode(), TAGS=tag)
        await beat(bench, OLD)
        yield bench


async def beat(client: Client, *subscriptions: SubscriptionData, client_id: str = "c") -> None:
    consumer = ConsumerData("cg", subscriptions=list(subscriptions))
    await client.ask(RequestCode.HEART_BEAT, body=Heartbeat(client_id, consumers=[consumer]))


def pull_of(version: int, topic: str = "T", *, offset: int = 0, wait_ms: int = 0) -> PullHeader:
    flags = PullFlag.SUSPEND if wait_ms else 0
    header = pull_header(topic, offset, wait_ms=wait_ms)
    return replace(header, sys_flag=flags, subscription=None, sub_version=version)


async def question_to(client: Client) -> Command:
    """Wait until a member is asked for its running info."""
    while (told := await client.told.get()).code != HOW:
        pass
    return told


def info(*subscriptions: SubscriptionData) -> bytes:
    """Encode the running info as a Java consumer does; its queues are keys, so it is no standard JSON."""
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"commitOffset":5,"droped":false}'
    own = b",".join(map(encode, subscriptions))
    return (
        b'{"mqPopTable":{},"mqTable":{' + b",".join([queue] * 500) + b'},"properties":{},"statusTable":{},'
        b'"subscriptionSet":[' + own + b'],"userConsumerInfo":{}}'
    )


@pytest.mark.parametrize("bulk", [False, True])
async def test_a_member_is_asked_and_its_pull_goes_on_with_the_newer_subscription(
    tmp_path: Path, *, bulk: bool
) -> None:
    async with member(tmp_path, bulk=bulk) as bench:
        assert bodies(await bench.ask(PULL, pull_of(1))) == [b"a"]
        pull = bench.ask_later(PULL, pull_of(2))
        question = await question_to(bench)
        assert question.ext_fields["consumerGroup"] == "cg" and question.ext_fields["clientId"] == "c"
        bench.connection.send(response(question, body=info(NEW)))
        assert bodies(await pull) == [b"b"]
        assert bodies(await bench.ask(PULL, pull_of(2))) == [b"b"]
        assert bodies(await bench.ask(PULL, pull_of(1))) == [b"b"]  # of an older version: as in RocketMQ


async def test_a_newer_sql_filter_holds_for_the_pull(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        await beat(bench, SubscriptionData("T", "TAGS = 'A'", "SQL92", version=3))
        pull = bench.ask_later(PULL, pull_of(4))
        newer = SubscriptionData("T", "TAGS = 'B'", "SQL92", version=4)
        bench.connection.send(response(await question_to(bench), body=info(newer)))
        assert bodies(await pull) == [b"b"]


async def test_a_pull_that_goes_on_is_held_while_there_is_nothing_new(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        pull = bench.ask_later(PULL, pull_of(2, offset=2, wait_ms=10_000))
        bench.connection.send(response(await question_to(bench), body=info(NEW)))
        await bench.send("T", b"c", TAGS="A")
        await bench.send("T", b"d", TAGS="B")
        assert bodies(await pull) == [b"d"]


async def test_pulls_of_a_member_that_is_being_asked_wait_for_the_same_answer(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        await bench.send("U", b"u", TAGS="B")
        await beat(bench, OLD, tag_subscription("U", "A", 1))
        headers = [pull_of(2), pull_of(2), pull_of(2, "U")]
        pulls = [bench.ask_later(PULL, header) for header in headers]
        question = await question_to(bench)
        newer = NEW, tag_subscription("U", "B", 2)
        bench.connection.send(response(question, body=info(*newer)))
        assert [bodies(await pull) for pull in pulls] == [[b"b"], [b"b"], [b"u"]]
        assert bench.told.empty()


async def test_a_member_takes_over_no_subscription_but_those_that_it_pulls_by(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        others = tag_subscription("U", "A", 1)
        await beat(bench, OLD, others)
        pull = bench.ask_later(PULL, pull_of(2))
        newer = tag_subscription("U", "B", 2), tag_subscription("V", "B", 2), NEW
        bench.connection.send(response(await question_to(bench), body=info(*newer)))
        await pull
        group = bench.parts.consumers.find("cg")
        assert group is not None
        assert {topic: known.data for topic, known in group.subscriptions.items()} == {"T": NEW, "U": others}


@pytest.mark.parametrize("bulk", [False, True])
async def test_a_member_that_does_not_answer_in_time_is_refused_and_asked_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, bulk: bool
) -> None:
    monkeypatch.setattr(newer_subscriptions, "ANSWER_S_MAX", 0.01)
    async with member(tmp_path, bulk=bulk) as bench:
        assert (await bench.ask(PULL, pull_of(2))).code == NOT_LATEST
        question = await question_to(bench)
        assert (await bench.ask(PULL, pull_of(2))).code == NOT_LATEST
        assert bench.told.empty()
        bench.connection.send(response(question, body=info(NEW)))  # too late
        assert (await bench.ask(PULL, pull_of(2))).code == NOT_LATEST
        await beat(bench, NEW)
        assert bodies(await bench.ask(PULL, pull_of(2))) == [b"b"]


@pytest.mark.parametrize(
    "answer",
    [
        response(Command(0), ResponseCode.SYSTEM_ERROR, "the group does not exist"),
        response(Command(0), body=WITHOUT),
        response(Command(0), body=b'{"subscriptionSet":[{]}'),
        response(Command(0), body=b'{"subscriptionSet":{"topic":"T"}}'),
        response(Command(0), body=b'{"subscriptionSet":["\xff"]}'),
        response(Command(0), body=info()),
        response(Command(0), body=info(OLD)),
        response(Command(0), body=info(tag_subscription("U", "B", 2))),
    ],
)
async def test_an_answer_without_the_newer_subscription_changes_nothing(
    tmp_path: Path, answer: Command
) -> None:
    async with member(tmp_path) as bench:
        pull = bench.ask_later(PULL, pull_of(2))
        answer.opaque = (await question_to(bench)).opaque
        bench.connection.send(answer)
        assert (await pull).code == NOT_LATEST
        assert bodies(await bench.ask(PULL, pull_of(1))) == [b"a"]


async def test_a_newer_version_still_is_asked_for_again(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        pull = bench.ask_later(PULL, pull_of(3))
        bench.connection.send(response(await question_to(bench), body=info(NEW)))
        assert (await pull).code == NOT_LATEST
        pull = bench.ask_later(PULL, pull_of(4))
        newest = tag_subscription("T", "*", 4)
        bench.connection.send(response(await question_to(bench), body=info(newest)))
        assert bodies(await pull) == [b"a", b"b"]


async def test_only_the_member_that_pulls_is_asked(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        stranger = await Client.open(bench.address)
        assert (await stranger.ask(PULL, pull_of(2))).code == NOT_LATEST
        await beat(stranger, OLD, client_id="other")
        pull = stranger.ask_later(PULL, pull_of(2))
        question = await question_to(stranger)
        assert question.ext_fields["clientId"] == "other"
        while not bench.told.empty():
            assert bench.told.get_nowait().code != HOW
        stranger.connection.send(response(question, body=info(NEW)))
        assert bodies(await pull) == [b"b"]
        await stranger.connection.close()


async def test_a_member_that_leaves_while_it_is_asked_changes_nothing(tmp_path: Path) -> None:
    async with member(tmp_path) as bench:
        other = await Client.open(bench.address)
        await beat(other, OLD, client_id="other")
        pull = other.ask_later(PULL, pull_of(2))
        await question_to(other)
        await other.connection.close()
        await asyncio.wait([pull])
        await bench.told.get()  # that the members changed
        assert (await bench.ask(PULL, pull_of(1))).code == ResponseCode.SUCCESS
        assert bench.parts.calls.waiting_count == 0


async def test_pulls_beyond_the_most_that_wait_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newer_subscriptions, "PULLS_MAX", 1)
    async with member(tmp_path) as bench:
        pull = bench.ask_later(PULL, pull_of(2))
        assert (await bench.ask(PULL, pull_of(2))).code == NOT_LATEST
        bench.connection.send(response(await question_to(bench), body=info(NEW)))
        assert bodies(await pull) == [b"b"]
        assert bodies(await bench.ask(PULL, pull_of(2))) == [b"b"]
