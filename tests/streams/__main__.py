"""Streams killed for real: what they have written in the end must be what was sent, each message once.

    python -m tests.streams [--kills 20] [--messages 1000000] [--seed N]

Messages come in while a process with two streams (``query.py``) is killed with SIGKILL, Spark's Java with
it, and started again from its checkpoints. In the end the rows in Parquet must be the topic's messages
exactly, and so must be the copies in the other topic: the broker knows what is sent again by its key.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.message import Message
from cometmq.net.address import free_port

QUEUES: Final = 4
LOOK_S: Final = 0.05
KILL_WITHIN_S: Final = 3.0
"""How long after a micro-batch a kill may come: long enough to hit any moment of the next one."""


def main() -> None:
    """Run the campaign and print what it found."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.kills} kills, {options.messages:,} messages", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cometmq-streams-") as folder:
        found = asyncio.run(
            campaign(options.kills, options.messages, random.Random(options.seed), Path(folder))
        )
    print(found, f"{time.monotonic() - begin:.0f} s")
    if wrong := {name: number for name, number in found.items() if number != options.messages}:
        sys.exit(f"FAILED: {wrong}, where there should be {options.messages}")
    print("all there, once")


async def campaign(kills: int, messages: int, chance: random.Random, folder: Path) -> dict[str, int]:
    """Kill the streams ``kills`` times while messages come in; give what they have made in the end."""
    port, namesrv_port = free_port(), free_port()
    name_server = f"127.0.0.1:{namesrv_port}"
    command = ["cometmq.cli.main", "dev", "--store", str(folder / "store")]
    broker = await python(*command, "--port", str(port), "--namesrv-port", str(namesrv_port))
    try:
        assert broker.stdout is not None
        await broker.stdout.readline()
        async with TopicAdmin(name_server) as admin:
            for topic in ("numbers", "copies"):
                await admin.create(topic, queues=QUEUES)
        numbers = [messages * part // (kills + 1) for part in range(kills + 2)]
        await send(name_server, 0, numbers[1])
        for kill in range(kills):
            sending = asyncio.create_task(send(name_server, numbers[kill + 1], numbers[kill + 2]))
            await run_and_kill(name_server, folder, chance)
            await sending
            print(f"kill {kill + 1}", flush=True)
        last = await python("tests.streams.query", name_server, str(folder), "--drain")
        output, _ = await last.communicate()
        assert last.returncode == 0, "the streams have failed"
        found: dict[str, int] = json.loads(output.splitlines()[-1])
        return found
    finally:
        broker.terminate()
        await broker.wait()


async def send(name_server: str, begin: int, end: int) -> None:
    """Send numbers, some at a time."""
    async with Producer(name_server) as producer:
        for first in range(begin, end, 1_000):
            numbers = range(first, min(first + 1_000, end))
            await producer.send_many(Message("numbers", b"%d" % number) for number in numbers)


async def run_and_kill(name_server: str, folder: Path, chance: random.Random) -> None:
    """Start the streams, let them make one micro-batch at least if there is one to make, and kill them."""
    before = batches(folder)
    process = await python("tests.streams.query", name_server, str(folder))
    try:
        while batches(folder) == before:
            assert process.returncode is None, "the streams have failed"
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(chance.uniform(0, KILL_WITHIN_S))
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def batches(folder: Path) -> set[Path]:
    """Give the marks of the micro-batches that are done."""
    return set(folder.glob("*-checkpoint/commits/[0-9]*"))


async def python(module: str, *arguments: str) -> Process:
    """Start a module in a process group of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdout=PIPE, start_new_session=True
    )


if __name__ == "__main__":
    main()
