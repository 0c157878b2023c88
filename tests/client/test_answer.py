from pathlib import Path

import pytest
from tests.live import serving

from cometmq.client.answer import ServerKind, answers_of, ask_broker, check_kind, successful
from cometmq.errors import FormatError, NetworkError, RemoteError, UnreadableAnswer, WrongServer
from cometmq.net.client import Connections
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command


def test_an_answer_of_success_is_given_on_and_another_one_is_raised() -> None:
    answer = Command(ResponseCode.SUCCESS)
    assert successful(answer) is answer
    with pytest.raises(RemoteError, match="no"):
        successful(Command(ResponseCode.NO_PERMISSION, remark="no"))


async def test_a_broker_and_a_name_server_are_told_apart_by_what_they_know(tmp_path: Path) -> None:
    unknown = Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 105 not supported")
    connections = Connections()
    async with serving(tmp_path) as live:
        broker, name_server = live.broker, live.name_server
        with pytest.raises(WrongServer, match=f"^{broker} is a broker, not a name server: give the address"):
            await check_kind(connections, broker, unknown, ServerKind.NAME_SERVER)
        with pytest.raises(WrongServer, match=f"^{name_server} is a name server, not a broker: give the"):
            await check_kind(connections, name_server, unknown, ServerKind.BROKER)
        await check_kind(connections, broker, unknown, ServerKind.BROKER)  # an old one, that does not know it
        await check_kind(connections, name_server, unknown, ServerKind.NAME_SERVER)
        await check_kind(connections, broker, Command(ResponseCode.NO_PERMISSION), ServerKind.NAME_SERVER)
        await connections.close()


def test_what_cannot_be_read_is_told_with_the_server() -> None:
    with (
        pytest.raises(
            UnreadableAnswer, match=r"^10\.0\.0\.1:10911 answers what cannot be read: no JSON; see "
        ),
        answers_of("10.0.0.1:10911"),
    ):
        raise FormatError("no JSON")


async def test_an_address_that_is_none_is_one_that_nobody_answers_at() -> None:
    connections = Connections()
    with pytest.raises(NetworkError, match="no connection to nowhere: "):
        await ask_broker(connections, "nowhere", Command(RequestCode.GET_BROKER_RUNTIME_INFO))
    await connections.close()
