"""Bodies that are decompressed as messages are handed over, and what cannot be."""

import asyncio
import zlib

import pytest
from msgspec.structs import replace
from tests.pulled import stored

from cometmq.client.requests.bodies import BodyLimit, decompress_all, decompress_first
from cometmq.errors import UndecodableBody
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.message import StoredMessage

ZLIB = compressed_with(0, CompressionType.ZLIB)


def packed(queue_offset: int, size: int) -> StoredMessage:
    return replace(stored(queue_offset), body=zlib.compress(bytes(size)), sys_flag=ZLIB)


def bad(queue_offset: int) -> StoredMessage:
    return replace(stored(queue_offset), body=b"no zlib", sys_flag=ZLIB)


def offsets(messages: list[StoredMessage]) -> list[int]:
    return [message.queue_offset for message in messages]


def test_bodies_are_decompressed_and_others_left_alone() -> None:
    messages = [stored(0), packed(1, 100), stored(2)]
    for whole in (decompress_first(messages), decompress_all(messages)):
        assert [message.body for message in whole] == [b"0", bytes(100), b"2"]
        assert whole[0] is messages[0] and whole[1].sys_flag == ZLIB & ~1
    assert decompress_first([]) == decompress_all([]) == []


def test_what_can_be_handed_over_ends_before_a_body_that_is_no_body() -> None:
    assert offsets(decompress_first([stored(0), packed(1, 9), bad(2), stored(3)])) == [0, 1]
    with pytest.raises(UndecodableBody, match=r"queue offset 7: .*pull from 8 to skip it") as caught:
        decompress_first([bad(7), stored(8)])
    assert (caught.value.message, caught.value.retriable) == (bad(7), False)
    with pytest.raises(UndecodableBody, match="queue offset 1"):
        decompress_all([stored(0), bad(1)])


def test_what_can_be_handed_over_stays_within_a_limit_but_for_a_single_message() -> None:
    bombs = [packed(number, 600) for number in range(4)]
    assert offsets(decompress_first(bombs, 1_000)) == [0]
    assert offsets(decompress_first(bombs, 1_200)) == [0, 1]
    assert offsets(decompress_first(bombs[:1], 100)) == [0]
    with pytest.raises(UndecodableBody, match=r"queue offset 1: .*larger than 400 when decompressed"):
        decompress_all(bombs, 1_000)


def test_what_comes_uncompressed_has_the_size_that_it_came_with() -> None:
    messages = [replace(stored(number), body=bytes(600)) for number in range(4)]
    assert decompress_first(messages, 1_000) == decompress_all(messages, 1_000) == messages


async def test_bodies_that_are_being_handled_take_a_limited_part_of_the_memory() -> None:
    limit, go_on = BodyLimit(1_000), asyncio.Event()
    handled: list[int] = []

    async def handle(message: StoredMessage) -> None:
        async with limit.decompressed([message]) as (whole,):
            handled.append(len(whole.body))
            await go_on.wait()

    tasks = [asyncio.create_task(handle(packed(number, 600))) for number in range(5)]
    plain = asyncio.create_task(handle(stored(5)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(handled) == [1, 600, 600], "two reach the limit; what is as it came does not wait"
    go_on.set()
    async with asyncio.timeout(60):
        await asyncio.gather(plain, *tasks)
    assert sorted(handled) == [1, *[600] * 5]


async def test_what_cannot_be_decompressed_takes_no_room() -> None:
    limit = BodyLimit(1_000)
    for _ in range(3):
        with pytest.raises(UndecodableBody):
            async with limit.decompressed([stored(1), bad(2)]):
                raise AssertionError
    async with limit.decompressed([packed(3, 600)]) as whole:
        assert offsets(list(whole)) == [3]
