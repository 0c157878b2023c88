"""A name server over real sockets, in the way brokers, clients and strangers use it."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.name_servers import Scene, broker_fields, registration

from cometmq.errors import NetworkError, SettingsError, StoreDamaged
from cometmq.namesrv.name_server import NameServer
from cometmq.namesrv.routes import HEARTBEAT_TIMEOUT_MS
from cometmq.net.connection import Connection
from cometmq.wire.bodies import TopicRoute
from cometmq.wire.bodies import decode as decode_body
from cometmq.wire.bodies.body import LIMITS
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import RESPONSE_FLAG, Command, SerializeType, encode

GARBAGE_SEED = 20_240_607


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    here = Scene()
    await here.name_server.start()
    try:
        yield here
    finally:
        await here.close()


async def strange(address: str, data: bytes) -> bytes:
    """Send bytes and an end; give what comes back until the connection ends."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def route_request(topic: str) -> Command:
    return Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": topic})


@pytest.mark.parametrize("serialize_type", SerializeType)
async def test_a_client_finds_the_broker_that_has_its_topic(serialize_type: SerializeType) -> None:
    async with scene() as here:
        await here.broker()
        client = await here.connect()
        request = route_request("T")
        request.serialize_type = serialize_type
        answer = await client.request(request)
        assert answer.code == 0 and answer.serialize_type is serialize_type
        route = decode_body(TopicRoute, answer.body)
        assert route.brokers[0].addrs == {0: "broker-a:10911"}
        assert route.queues[0].write_queue_count == 4


async def test_a_lost_connection_takes_its_broker_with_it_at_once() -> None:
    async with scene() as here:
        broker = await here.broker("broker-a", "T", "U")
        await here.broker("broker-b", "V", "W")
        await broker.close()
        while await here.topics() != ["V", "W"]:  # until the server has read the end of that connection
            pass


async def test_a_silent_broker_expires_and_its_connection_is_closed() -> None:
    async with scene() as here:
        silent = await here.broker("broker-a", "T", "U")
        alive = await here.broker("broker-b", "V", "W")
        await here.connect()
        here.clock.advance(HEARTBEAT_TIMEOUT_MS)
        fields = broker_fields("broker-b", "broker-b:10911")
        await alive.request(Command(RequestCode.BROKER_HEARTBEAT, ext_fields=fields))
        here.name_server.expire()
        assert await here.topics() == ["T", "U", "V", "W"]
        here.clock.advance(1)
        here.name_server.expire()
        assert await here.topics() == ["V", "W"]
        with pytest.raises(NetworkError):
            await silent.request(Command(RequestCode.BROKER_HEARTBEAT))
        assert not alive.closed


async def test_a_oneway_heartbeat_gets_no_answer() -> None:
    async with scene() as here:
        broker = await here.broker()
        broker.oneway(Command(RequestCode.BROKER_HEARTBEAT, ext_fields=broker_fields()))
        broker.oneway(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC))
        answer = await broker.request(route_request("T"))
        assert (answer.code, answer.opaque) == (0, 4)


async def test_an_answer_that_nobody_asked_for_is_ignored() -> None:
    async with scene() as here:
        client = await here.connect()
        client.send(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, RESPONSE_FLAG))
        assert (await client.request(Command(9_999))).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("command", "remark"),
    [
        (Command(RequestCode.GET_ROUTEINFO_BY_TOPIC), "header field topic: missing"),
        (
            Command(RequestCode.REGISTER_BROKER, ext_fields={**broker_fields(), "brokerId": "one"}),
            "header field brokerId: 'one' is not a 64-bit integer",
        ),
        (
            Command(RequestCode.REGISTER_BROKER, ext_fields={**broker_fields(), "clusterName": "../c"}),
            "cluster name '../c'",
        ),
        (Command(RequestCode.REGISTER_BROKER, ext_fields=broker_fields(), body=b"{"), "JSON"),
        (
            Command(
                RequestCode.REGISTER_BROKER,
                ext_fields={**broker_fields(), "compressed": "true"},
                body=b"\x00" * 9,
            ),
            "compressed body of 9 bytes",
        ),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_in_words_and_the_next_is_answered(
    command: Command, remark: str
) -> None:
    async with scene() as here:
        client = await here.connect()
        refused = await client.request(command)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert remark in (refused.remark or "")
        assert "Traceback" not in (refused.remark or "")
        assert (await client.request(Command(9_999))).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_strangers_harm_nobody() -> None:
    """Bytes that are no frames, frames that are no commands, commands cut at every place."""

    dice = random.Random(GARBAGE_SEED)
    whole = encode(route_request("T"))
    strangers = [whole[:cut] for cut in range(1, len(whole))]
    strangers += [dice.randbytes(dice.randrange(1, 300)) for _ in range(100)]
    for _ in range(100):
        broken = bytearray(whole)
        broken[dice.randrange(len(broken))] = dice.randrange(256)
        strangers.append(bytes(broken))
    strangers += [struct.pack(">iI", length, 0) for length in (-(2**31), -1, 3, 2**24 + 1, 2**31 - 1)]
    async with scene() as here:
        await here.broker()
        client = await here.connect()
        for data in strangers:
            stranger = asyncio.create_task(strange(here.name_server.address, data))
            answer = await client.request(route_request("T"))
            assert answer.code == 0, f"seed {GARBAGE_SEED}"
            await stranger
        assert not client.closed


async def test_a_thousand_requests_of_one_write_are_all_answered() -> None:
    async with scene() as here:
        await here.broker()
        client = await here.connect()
        answers = await asyncio.gather(*(client.request(route_request("TX"[n % 2])) for n in range(1000)))
        assert [answer.code for answer in answers] == [0, ResponseCode.TOPIC_NOT_EXIST] * 500


def test_texts_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    fields = {"namespace": "n", "key": "k", "value": "v"}

    async def ask(code: RequestCode) -> Command:
        name_server = NameServer(port=0, kv_config_path=path)
        await name_server.start()
        client = await Connection.open(name_server.address)
        answer = await client.request(Command(code, ext_fields=fields))
        await client.close()
        await name_server.stop()
        return answer

    assert asyncio.run(ask(RequestCode.PUT_KV_CONFIG)).code == 0
    assert asyncio.run(ask(RequestCode.GET_KV_CONFIG)).ext_fields == {"value": "v"}
    path.write_text("{")
    with pytest.raises(StoreDamaged):
        NameServer(kv_config_path=path)


async def test_what_cannot_be_saved_is_answered_without_naming_our_files(tmp_path: Path) -> None:
    name_server = NameServer(port=0, kv_config_path=tmp_path / "file" / "kvConfig.json")
    (tmp_path / "file").write_text("no directory")
    await name_server.start()
    client = await Connection.open(name_server.address)
    fields = {"namespace": "n", "key": "k", "value": "v"}
    answer = await client.request(Command(RequestCode.PUT_KV_CONFIG, ext_fields=fields))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert str(tmp_path) not in (answer.remark or "")
    await client.close()
    await name_server.stop()


async def test_a_changed_setting_is_there_after_a_restart(tmp_path: Path) -> None:
    for code, body in (
        (RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true"),
        (RequestCode.GET_NAMESRV_CONFIG, b""),
    ):
        name_server = NameServer(port=0, kv_config_path=tmp_path / "kvConfig.json")
        await name_server.start()
        client = await Connection.open(name_server.address)
        answer = await client.request(Command(code, body=body))
        assert answer.code == ResponseCode.SUCCESS
        refused = Command(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"listenPort=1")
        assert (await client.request(refused)).code == ResponseCode.NO_PERMISSION
        await client.close()
        await name_server.stop()
    assert b"orderMessageEnable=true\n" in answer.body


async def test_settings_name_the_port() -> None:
    async with scene() as here:
        client = await here.connect()
        answer = await client.request(Command(RequestCode.GET_NAMESRV_CONFIG))
        assert f"listenPort={here.name_server.port}\n".encode() in answer.body


async def test_a_second_name_server_on_the_same_port_is_told_so() -> None:
    async with scene() as here:
        with pytest.raises(SettingsError, match=f"127.0.0.1:{here.name_server.port}"):
            await NameServer(port=here.name_server.port).start()


async def test_it_can_be_stopped_with_clients_connected_and_before_it_was_started() -> None:
    await NameServer(port=0).stop()
    async with scene() as here:
        client = await here.connect()
        await client.request(Command(9_999))
        await here.name_server.stop()
        with pytest.raises(NetworkError):
            await client.request(Command(9_999))


async def test_a_long_registration_is_taken_in_whole_and_one_that_is_too_long_is_refused() -> None:
    name_server = NameServer(port=0)
    await name_server.start()
    connection = await Connection.open(name_server.address)
    topics = [f"t{n}" for n in range(5_000)]
    register = Command(RequestCode.REGISTER_BROKER, ext_fields=broker_fields(), body=registration(*topics))
    assert (await connection.request(register)).code == ResponseCode.SUCCESS
    assert name_server.routes.topics() == sorted(topics)
    many = b'{"topicConfigSerializeWrapper":{"x":[' + b",".join([b"{}"] * 40_000) + b"]}}"
    too_long = Command(RequestCode.REGISTER_BROKER, ext_fields=broker_fields(), body=many)
    refused = await connection.request(too_long)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "40002 JSON objects, the limit is 40000" in (refused.remark or "")
    await connection.close()
    await name_server.stop()


async def test_what_has_no_reason_to_be_long_is_refused_with_its_size_and_the_limit() -> None:
    async with scene() as here:
        client = await here.connect()
        header = {"topic": "T"}
        body = b'{"queueDatas":[]}'.ljust(LIMITS.usual_bytes + 1)
        refused = await client.request(
            Command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, ext_fields=header, body=body)
        )
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == (
            "the body of request 217 has 98305 bytes, the limit is 98304 (requestBodyBytesMax): "
            "send less at once"
        )


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (RequestCode.REGISTER_TOPIC_IN_NAMESRV, b"{}".ljust(101), "has 101 bytes, the limit is 100"),
        (RequestCode.QUERY_DATA_VERSION, b"{}".ljust(101), "has 101 bytes, the limit is 100"),
        (RequestCode.QUERY_DATA_VERSION, b"{counter:5}".ljust(51), "at most 50 bytes are read"),
        (RequestCode.REGISTER_BROKER, b"{}" * 6, "has 6 JSON objects, the limit is 5"),
    ],
)
async def test_each_limit_is_a_setting(code: RequestCode, body: bytes, says: str) -> None:
    limits = LIMITS._replace(usual_bytes=100, nonstandard_bytes=50, registration_topics=5)
    name_server = NameServer(port=0, limits=limits)
    await name_server.start()
    connection = await Connection.open(name_server.address)
    fields = broker_fields() | {"topic": "T"}
    refused = await connection.request(Command(code, ext_fields=fields, body=body))
    assert refused.code == ResponseCode.SYSTEM_ERROR and says in (refused.remark or "")
    told = await connection.request(Command(RequestCode.GET_NAMESRV_CONFIG))
    assert {b"requestBodyBytesMax=100", b"registrationTopicsMax=5"} <= set(told.body.splitlines())
    assert b"routeQueuesMax=131072" in told.body.splitlines()
    await connection.close()
    await name_server.stop()


async def test_the_rest_of_a_registration_is_dropped_whose_broker_is_gone() -> None:
    name_server = NameServer(port=0)
    await name_server.start()
    connection = await Connection.open(name_server.address)
    topics = [f"t{n}" for n in range(5_000)]
    register = Command(RequestCode.REGISTER_BROKER, ext_fields=broker_fields(), body=registration(*topics))
    answer = connection.request(register)
    await connection.close()
    with pytest.raises(NetworkError):
        await answer
    await name_server.stop()
    assert name_server.routes.topics() == []
