import asyncio
from collections.abc import Sequence

from cometmq.broker.handlers import Handlers, Requests, Starting
from cometmq.broker.refused import Refused
from cometmq.errors import MessageIllegal
from cometmq.net.connection import Connection
from cometmq.net.server import RequestHandler, Server, Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import GetMaxOffsetHeader, Header

SEND, OTHER = RequestCode.SEND_MESSAGE_V2, RequestCode.GET_MAX_OFFSET
OTHER_FIELDS = {"topic": "TopicA", "queueId": "0"}


async def answers(handler: RequestHandler, *codes: int) -> list[Command]:
    """Ask for ``codes`` in one write, and give the answers in the order of the questions."""

    server = Server(handler)
    port = await server.start("127.0.0.1", 0)
    connection = await Connection.open(f"127.0.0.1:{port}")
    got = await asyncio.gather(
        *[connection.request(Command(code, ext_fields=OTHER_FIELDS)) for code in codes]
    )
    await connection.close()
    await server.stop()
    return got


def succeed(_: Session, command: Command, __: Header) -> Command:
    return response(command)


async def test_sends_that_follow_each_other_are_handled_together_and_all_in_order() -> None:
    log: list[list[int]] = []

    def sends(session: Session, commands: Sequence[Command]) -> None:
        log.append([command.code for command in commands])
        for command in commands:
            session.send(response(command))

    def other(_: Session, command: Command, header: GetMaxOffsetHeader) -> Command:
        log.append([command.code])
        assert header.topic == "TopicA"
        return response(command)

    requests = Requests(sends, {OTHER: other}, _no_answers, [])
    assert [a.code for a in await answers(requests, SEND, SEND, OTHER, SEND, OTHER)] == [0] * 5
    assert log == [[SEND, SEND], [OTHER], [SEND], [OTHER]]


async def test_an_unknown_request_gets_rocketmqs_answer_and_the_connection_lives_on() -> None:
    requests = Requests(_no_sends, {OTHER: succeed}, _no_answers, [])
    unknown, known = await answers(requests, 9999, OTHER)
    assert (unknown.code, unknown.remark) == (
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        " request type 9999 not supported",
    )
    assert known.code == ResponseCode.SUCCESS


async def test_an_error_is_answered_and_harms_no_other_command() -> None:
    def refuse(_: Session, __: Command, ___: Header) -> Command:
        raise Refused(ResponseCode.NO_PERMISSION, "not you")

    def break_a_limit(_: Session, __: Command, ___: Header) -> Command:
        raise MessageIllegal("too long")

    def fail(_: Session, __: Command, ___: Header) -> Command:
        raise ZeroDivisionError

    codes = (RequestCode.GET_MIN_OFFSET, RequestCode.HEART_BEAT, RequestCode.GET_BROKER_CONFIG, OTHER)
    table: Handlers = dict(zip(codes, (refuse, break_a_limit, fail, succeed), strict=True))
    got = await answers(Requests(_no_sends, table, _no_answers, []), *codes)
    assert [answer.code for answer in got] == [
        ResponseCode.NO_PERMISSION,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SUCCESS,
    ]
    assert got[0].remark == "not you"


async def test_a_header_that_cannot_be_read_is_answered_with_the_field_and_reaches_no_handler() -> None:
    def never(_: Session, __: Command, ___: Header) -> Command:
        raise AssertionError

    requests = Requests(_no_sends, {RequestCode.QUERY_CONSUMER_OFFSET: never}, _no_answers, [])
    (answer,) = await answers(requests, RequestCode.QUERY_CONSUMER_OFFSET)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "header field consumerGroup: missing" in (answer.remark or "")


async def test_all_who_care_are_told_of_a_closed_session() -> None:
    told: list[str] = []

    def fails(_: Session) -> None:
        told.append("first")
        raise ZeroDivisionError

    requests = Requests(
        _no_sends,
        {OTHER: succeed},
        _no_answers,
        [fails, lambda _: told.append("second")],
    )
    await answers(requests, OTHER)
    assert told == ["first", "second"]


async def test_while_the_broker_starts_peers_are_asked_to_come_again() -> None:
    (answer,) = await answers(Starting(), OTHER)
    assert answer.code == ResponseCode.SYSTEM_BUSY


def _no_answers(_: Session, __: Command) -> None:
    raise AssertionError


def _no_sends(_: Session, __: Sequence[Command]) -> None:
    raise AssertionError
