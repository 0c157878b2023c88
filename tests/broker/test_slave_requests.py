"""What a slave refuses, and with which words."""

from pathlib import Path
from typing import Any

from tests.broker.conftest import pull_header
from tests.replication.conftest import (
    pair,
    until,
)

from cometmq.broker.handlers import Handlers
from cometmq.broker.safe_sends import REJECTED
from cometmq.broker.slave_requests import PULLS, READ_ONLY, of_slave
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import (
    CreateTopicHeader,
    EndTransactionHeader,
    TopicHeader,
)

PULL = RequestCode.PULL_MESSAGE


async def test_a_slave_refuses_what_only_its_master_can_do(tmp_path: Path) -> None:
    async with pair(tmp_path) as (_, follower, producer, client):
        await producer.send("T", b"0")
        await until(lambda: follower.parts.topics.find("T") is not None)
        answer = await client.send("T", b"1")
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
        topic = CreateTopicHeader("New", "TBW102", 1, 1, 6, "SINGLE_TAG")
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, READ_ONLY)
        answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, READ_ONLY)
        ended = EndTransactionHeader("pg", 0, 0, 8, "id")
        answer = await client.ask(RequestCode.END_TRANSACTION, ended)
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert follower.store.max_queue_offset("T", 0) == 1


async def test_a_slave_that_may_not_be_read_refuses_pulls(tmp_path: Path) -> None:
    async with pair(tmp_path, None, {"slave_read_enable": False}) as (_, follower, producer, client):
        await producer.send("T", b"0")
        await until(lambda: follower.store.max_queue_offset("T", 0) == 1)
        answer = await client.ask(PULL, pull_header("T"))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)


async def test_a_slave_whose_log_may_differ_from_its_masters_refuses_pulls_until_it_does_not() -> None:
    handlers: Handlers = dict.fromkeys((*PULLS, RequestCode.GET_MAX_OFFSET), answer_ok)
    levels = iter((False, True))
    pull = of_slave(handlers, answers_pulls=True, may_be_read=lambda: next(levels))[PULL]
    session: Any = None
    refused, answered = (pull(session, Command(PULL), pull_header("T")) for _ in range(2))
    assert refused is not None and (refused.code, refused.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
    assert answered is not None and answered.code == ResponseCode.SUCCESS


def answer_ok(_session: object, command: Command, _header: object) -> Command:
    return response(command)
