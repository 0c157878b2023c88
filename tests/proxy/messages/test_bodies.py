"""Bodies that clients decompress, and those that are decompressed for them."""

import asyncio
import threading
import zlib

import pytest
from msgspec.structs import replace
from tests.kit.grpc_clients import STORED

from cometmq.format.compression import compress
from cometmq.format.stored import with_readable_body
from cometmq.format.sys_flag import CompressionType, compressed_with, is_compressed
from cometmq.message import StoredMessage
from cometmq.proxy.http2.unsent import AnswersHeld, Recipient, Unsent
from cometmq.proxy.messages import bodies
from cometmq.proxy.messages.bodies import AT_ONCE_BYTES, MESSAGE_BYTES, Bodies, held_bytes

LONG = b"x" * (2 * AT_ONCE_BYTES)


def stored(body: bytes, kind: CompressionType = CompressionType.ZLIB) -> StoredMessage:
    return replace(STORED, body=compress(body, kind), sys_flag=compressed_with(0, kind))


def limited(total: int = 1 << 30) -> tuple[AnswersHeld, Recipient]:
    recipient = Recipient(Unsent(total, total), lambda _: None)
    return AnswersHeld(recipient), recipient


@pytest.mark.parametrize("language", ["JAVA", "PYTHON"])
async def test_zlib_is_passed_on_to_those_who_know_it(language: str) -> None:
    message = stored(LONG)
    assert await Bodies(1 << 20).readable(message, language, AnswersHeld()) is message


@pytest.mark.parametrize(
    ("language", "kind"),
    [("HTTP", CompressionType.ZLIB), ("", CompressionType.ZLIB), ("JAVA", CompressionType.ZSTD)],
)
@pytest.mark.parametrize("body", [b"short", LONG], ids=["short", "long"])
async def test_for_others_bodies_are_decompressed(language: str, kind: CompressionType, body: bytes) -> None:
    answers, recipient = limited()
    readable = await Bodies(1 << 20).readable(stored(body, kind), language, answers)
    assert readable.body == body and not is_compressed(readable.sys_flag)
    assert recipient.bytes == (len(body) if body is LONG else 0)


async def test_a_body_that_is_not_compressed_stays() -> None:
    assert await Bodies(1).readable(STORED) is STORED


async def test_a_body_that_would_be_too_long_is_passed_on_as_it_is() -> None:
    message = stored(LONG)
    answers, recipient = limited()
    assert await Bodies(len(LONG) - 1).readable(message, "", answers) is message
    assert recipient.bytes == 0
    broken = replace(message, body=zlib.compress(LONG)[:-1])
    assert await Bodies(len(LONG)).readable(broken, "", answers) is broken


async def test_long_bodies_are_decompressed_one_at_a_time_and_not_in_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once = most = 0
    lock, real = threading.Lock(), with_readable_body

    def watched(message: StoredMessage, *, size_max: int) -> StoredMessage:
        nonlocal at_once, most
        if size_max == AT_ONCE_BYTES:
            return real(message, size_max=size_max)
        assert threading.current_thread() is not threading.main_thread()
        with lock:
            at_once += 1
            most = max(most, at_once)
        found = real(message, size_max=size_max)
        with lock:
            at_once -= 1
        return found

    monkeypatch.setattr(bodies, "with_readable_body", watched)
    made = Bodies(1 << 20)
    found = await asyncio.gather(*(made.readable(stored(LONG)) for _ in range(4)))
    assert [one.body for one in found] == [LONG] * 4 and most == 1


async def test_a_call_that_is_cancelled_lets_the_next_body_wait_until_its_own_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, gate, bodies_begun = asyncio.Event(), threading.Event(), []
    loop, real = asyncio.get_running_loop(), with_readable_body

    def held(message: StoredMessage, *, size_max: int) -> StoredMessage:
        if size_max != AT_ONCE_BYTES:
            bodies_begun.append(message.body)
            loop.call_soon_threadsafe(begun.set)
            gate.wait()
        return real(message, size_max=size_max)

    monkeypatch.setattr(bodies, "with_readable_body", held)
    made = Bodies(1 << 20)
    first, second = (asyncio.create_task(made.readable(stored(LONG))) for _ in range(2))
    await begun.wait()
    first.cancel()
    await asyncio.wait([first])
    assert len(bodies_begun) == 1
    gate.set()
    assert (await second).body == LONG and len(bodies_begun) == 2


async def test_without_room_for_it_a_body_is_passed_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ROOM_S", 0)
    answers, recipient = limited(100)
    recipient.hold(100)
    message = stored(LONG)
    assert await Bodies(1 << 20).readable(message, "", answers) is message


def test_a_message_takes_its_properties_too() -> None:
    message = replace(STORED, body=b"12345", properties={"name": "value" * 100})
    assert held_bytes([message, message]) == 2 * (MESSAGE_BYTES + 5 + 4 + 500)
