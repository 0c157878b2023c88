"""Looking for what cannot be, and within a time; the rest is in ``test_lookup_end_to_end``."""

import asyncio
from pathlib import Path

import pytest
from tests.live import serving

from cometmq.client import Lookup, Producer
from cometmq.errors import FormatError, NetworkError
from cometmq.format.host import pack_host
from cometmq.format.message_id import offset_message_id
from cometmq.io.clock import ManualClock
from cometmq.message import Message
from cometmq.net.address import free_port


def test_a_text_that_is_no_id_is_refused_and_an_id_of_nobody_finds_nobody() -> None:
    async def main() -> None:
        async with Lookup("127.0.0.1:9876") as lookup:
            for text in ("", "xyz", "0" * 31, "g" * 32):
                with pytest.raises(FormatError):
                    await lookup.by_offset_id(text)
            with pytest.raises(NetworkError):
                await lookup.by_offset_id(offset_message_id(pack_host("127.0.0.1", free_port()), 0))

    asyncio.run(main())


def test_messages_are_found_by_key_within_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        begin = clock.now_ms()
        async with (
            serving(tmp_path, clock=clock) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            for n in range(4):
                await producer.send(Message("Orders", b"%d" % n, keys=("k",)))
                clock.advance(10_000)
            found = await lookup.by_key("Orders", "k", begin_time=begin + 5_000, end_time=begin + 25_000)
        assert [message.body for message in found] == [b"1", b"2"]

    asyncio.run(main())
