"""The two streams of ``streams_query.py`` in a process that is killed, and what is sent to them."""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.campaigns.kit.processes import start_python
from tests.campaigns.spark import checkpoints
from tests.campaigns.spark.streams_query import COPIES, ROWS

from cometmq.client import Producer
from cometmq.message import Message, MessageQueue

TOPICS: Final = ("numbers", "copies")
LOOK_S: Final = 0.05
AT_ONCE: Final = 1_000


class Streams:
    """The streams, whose files are in a folder.

    Args:
        retry_s: how long they ask a broker again that is away.
    """

    def __init__(self, name_server: str, folder: Path, retry_s: int = 60) -> None:
        self._arguments = (name_server, str(folder), "--retry-s", str(retry_s))
        self._folder = folder
        self._log = folder / "streams.log"

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[Process]:
        """Run them; kill them, and Spark's Java with them, if they still run in the end."""
        with self._log.open("w") as log:
            process = await start_python(
                "tests.campaigns.spark.streams_query", *self._arguments, *arguments, stderr=log
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def drain(self, *arguments: str) -> str:
        """Run them until they have read all that is there; return what they print."""
        async with self.running("--drain", *arguments) as process:
            output, _ = await process.communicate()
        assert process.returncode == 0, self.said
        return output.decode()

    async def until_done(self, process: Process) -> None:
        """Wait until each stream has done one micro-batch more."""
        before = self.done()
        while any(now <= then for then, now in zip(before, self.done(), strict=True)):
            assert process.returncode is None, self.said
            await asyncio.sleep(LOOK_S)

    @property
    def said(self) -> str:
        """What they have written to stderr since they were started."""
        return self._log.read_text()

    def checkpoint(self, stream: str) -> Path:
        """Return the folder of a stream's checkpoint."""
        return self._folder / f"{stream}-checkpoint"

    def done(self) -> list[set[Path]]:
        """Return the marks of the micro-batches that each stream has done."""
        return [checkpoints.done(self.checkpoint(stream)) for stream in (ROWS, COPIES)]


async def send_numbers(producer: Producer, numbers: range, queues: Sequence[MessageQueue] = ()) -> None:
    """Send numbers, some at a time, to some queues, or to any of the topic."""
    for begin in range(0, len(numbers), AT_ONCE):
        messages = [Message(TOPICS[0], b"%08d" % number) for number in numbers[begin : begin + AT_ONCE]]
        if queues:
            await producer.send_many(messages, lambda message: queues[int(message.body) % len(queues)])
        else:
            await producer.send_many(messages)
