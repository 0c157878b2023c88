"""Bytes that are no frames, or frames that are no requests: the connection goes, all others go on."""

import logging
import random
import struct
from pathlib import Path

import pytest
from tests.adversity.conftest import Raw, attacked, read
from tests.broker.conftest import Client, pull_header, send_header
from tests.kit.refusals import assert_log_is_sound

from cometmq.wire.bodies import Heartbeat, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import FRAME_LENGTH_MAX, HEADER_LENGTH_MAX, Command, SerializeType
from cometmq.wire.frame import encode as frame_of
from cometmq.wire.headers import GetMaxOffsetHeader, GetRouteHeader, Header, fields

GARBAGE_CONNECTIONS = 300
LOOSE_ENDS = 40


def request(code: int, header: Header | None = None, body: bytes = b"", *, binary: bool = False) -> bytes:
    kind = SerializeType.ROCKETMQ if binary else SerializeType.JSON
    ext_fields = fields(header) if header else {}
    return frame_of(Command(code, 7, ext_fields=ext_fields, body=body, serialize_type=kind))


def frame(length: int, serialize_type: int, header_length: int, rest: bytes = b"") -> bytes:
    return struct.pack(">iI", length, serialize_type << 24 | header_length) + rest


def headed(header: bytes, serialize_type: int = 0) -> bytes:
    return frame(4 + len(header), serialize_type, len(header), header)


SEND = request(RequestCode.SEND_MESSAGE_V2, send_header("Half"), b"body")
READ_AT_ONCE = 10_000
ASK = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader("Calm"))

NO_FRAMES = {
    "longer than 16 MiB": frame(FRAME_LENGTH_MAX + 1, 0, 2, b"{}"),
    "2 GiB": frame(2**31 - 1, 0, 2, b"{}"),
    "of negative length": frame(-1, 0, 2, b"{}"),
    "of the least length": frame(-(2**31), 0, 2, b"{}"),
    "of length zero": frame(0, 0, 2, b"{}"),
    "shorter than its prefix": frame(3, 0, 2, b"{}"),
    "header longer than the frame": frame(6, 0, 3, b"{}"),
    "header of 16 MiB": frame(6, 0, 0xFFFFFF, b"{}"),
    "header longer than 512 KiB": frame(FRAME_LENGTH_MAX, 0, HEADER_LENGTH_MAX + 1, b"{}"),
    "header length negative": struct.pack(">ii", 6, -1) + b"{}",
    "serialize type 2": frame(6, 2, 2, b"{}"),
    "serialize type 255": frame(6, 255, 2, b"{}"),
    "TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "text": b"hello, broker\n" * 3,
    "header is empty": headed(b""),
    "header is no JSON": headed(b"{"),
    "header is null": headed(b"null"),
    "header is a list": headed(b"[1]"),
    "header without a code": headed(b"{}"),
    "code is a text": headed(b'{"code":"x"}'),
    "code has 70 bits": headed(b'{"code":1180591620717411303424}'),
    "fields are a list": headed(b'{"code":10,"extFields":[1]}'),
    "field is an object": headed(b'{"code":10,"extFields":{"a":{}}}'),
    "header is not UTF-8": headed(b'{"code":10,"remark":"\xff\xfe"}'),
    "lists in lists": headed(b'{"code":10,"extFields":' + b"[" * 200_000),
    "objects in objects": headed(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "binary header is cut": headed(b"\0\x0a\0\0\0", 1),
    "binary remark leads out": headed(bytes(13) + b"\x7f\xff\xff\xff", 1),
    "binary remark is negative": headed(bytes(13) + b"\xff\xff\xff\xff", 1),
    "binary fields lead out": headed(bytes(17) + b"\0\0\0\x10\0\1a", 1),
    "binary field is negative": headed(bytes(17) + b"\0\0\0\x07\0\1a\xff\xff\xff\xff", 1),
    "binary field is not UTF-8": headed(bytes(17) + b"\0\0\0\x08\0\1\xff\0\0\0\1a", 1),
}


async def test_what_is_no_frame_ends_its_connection_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with attacked(tmp_path) as scene:
        for address in scene.addresses:
            for what, data in NO_FRAMES.items():
                async with Raw.open(address) as raw:
                    await raw.write(data)
                    assert await raw.rest() == b"", what
                if len(data) > READ_AT_ONCE:
                    continue  # what is unread resets the connection
                async with Raw.open(address) as raw:
                    await raw.write(ASK + data)
                    (answer,) = FrameReader().receive_data(await raw.rest())
                    assert answer.opaque == 7, f"asked before {what}"
    told = [record for record in caplog.records if "closed the connection" in record.message]
    assert len(told) >= 2 * len(NO_FRAMES), "the log says of each why"
    assert_log_is_sound(caplog)


async def test_random_garbage_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(20_200_913)
    true = [
        request(RequestCode.SEND_MESSAGE_V2, send_header("Garbage", TAGS="a"), b"body" * 9),
        request(RequestCode.SEND_BATCH_MESSAGE, send_header("Garbage"), bytes(60)),
        request(RequestCode.PULL_MESSAGE, pull_header("Calm", wait_ms=1_000), binary=True),
        request(RequestCode.HEART_BEAT, body=encode(Heartbeat("c"))),
        request(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader("Calm", 0), binary=True),
        ASK,
    ]

    def garbage() -> bytes:
        if chance.random() < 0.3:
            return chance.randbytes(chance.randrange(1, 400))
        data = bytearray(b"".join(chance.choices(true, k=3)))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)

    async with attacked(tmp_path) as scene:
        for number in range(GARBAGE_CONNECTIONS):
            async with Raw.open(scene.addresses[number % 2]) as raw:
                await raw.write(garbage())
                raw.end()
                FrameReader().receive_data(await raw.rest())  # whatever is answered is frames
    assert_log_is_sound(caplog)


async def test_half_a_frame_is_no_request(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        await scene.client.send("Half", b"whole")
        for cut in (1, 4, 7, 8, 9, len(SEND) // 2, len(SEND) - 1):
            async with Raw.open(scene.live.broker) as raw:
                await raw.write(SEND[:cut])
                raw.end()
                assert await raw.rest() == b""
            async with Raw.open(scene.live.broker) as raw:
                await raw.write(SEND[:cut])
        assert await read(scene.client, "Half", 0) == {0: b"whole"}


async def test_a_frame_may_come_byte_by_byte_and_one_that_does_not_end_stops_nobody(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        loose = [await Client.open(scene.live.broker) for _ in range(LOOSE_ENDS)]
        for number, client in enumerate(loose):
            client.connection.send(SEND[: number % len(SEND)])
        async with Raw.open(scene.live.broker) as raw:
            for at in range(len(SEND)):
                await raw.write(SEND[at : at + 1])
                await scene.bystander.send()  # so that the broker reads the byte by itself
            length = int.from_bytes(await raw.read(4), "big")
            (answer,) = FrameReader().receive_data(struct.pack(">i", length) + await raw.read(length))
            assert (answer.code, answer.opaque) == (ResponseCode.SUCCESS, 7)
        assert await read(scene.client, "Half", 0) == {0: b"body"}
        for client in loose:
            await client.connection.close()


@pytest.mark.parametrize("kind", SerializeType)
async def test_an_unknown_request_is_answered_and_the_connection_lives_on(
    tmp_path: Path, kind: SerializeType
) -> None:
    async with attacked(tmp_path) as scene:
        for address in scene.addresses:
            client = await Client.open(address)
            for code in (-1, 0, 1, 9_999, 32_767, RequestCode.QUERY_BROKER_OFFSET):
                answer = await client.connection.request(Command(code, serialize_type=kind))
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert answer.remark == f" request type {code} not supported"
                client.connection.oneway(Command(code, serialize_type=kind))
            wrong_way = Command(0, 1, flag=1, serialize_type=kind)
            client.connection.send(wrong_way)  # an answer to nothing
            answer = await client.connection.request(Command(9_999, serialize_type=kind))
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            await client.connection.close()
