"""Fills a store fast: frames as the Java client sends them, read and appended in bulk, without sockets.

    python -m benches.fill DIRECTORY MIB [--topics 64] [--queues 8] [--file-mib 1024] [--kill]

With ``--kill`` the process ends by SIGKILL once the messages are appended, as if it had crashed.
"""

import argparse
import os
import signal
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.format import properties
from cometmq.format.host import pack_host, sized_host
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import SendBatch, constants_of
from cometmq.kernels.sends.send_topics import SendTopics
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, encode
from cometmq.wire.template import ResponseTemplate

HOST: Final = pack_host("127.0.0.1", 10911)
KEY_DIGITS: Final = 8
DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
SHIFTS: Final = 4 * np.arange(KEY_DIGITS)[::-1]
UNIQUE_KEY: Final = "7F000001" * 3
ADDED: Final = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
BODY_SIZE: Final = 128
ROUND_MIN: Final = 10_000
"""So many frames are made, however few queues: the processor's caches shall not make few of them cheap."""


def main() -> None:
    """Fill a store."""
    parser = argparse.ArgumentParser(prog="python -m benches.fill", description="Fill a store fast")
    parser.add_argument("directory", type=Path)
    parser.add_argument("mib", type=int)
    parser.add_argument("--topics", type=int, default=64)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--file-mib", type=int, default=1024, help="length of a CommitLog file")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    settings = StoreSettings(mapped_file_size_commit_log=options.file_mib << 20)
    with MessageStore.open(options.directory, settings) as store:
        fill = Fill(store, options.topics, options.queues)
        fill.up_to(options.mib << 20)
        print(fill.count, flush=True)
        if options.kill:
            os.kill(os.getpid(), signal.SIGKILL)


class Fill:
    """Messages for all queues of some topics in turn, each with a unique key of its own.

    Args:
        store: without SYNC_FLUSH.
        topics: so many, named bench-0, bench-1, …

    Attributes:
        count: how many messages were appended.
    """

    def __init__(self, store: MessageStore, topics: int, queues: int, body_size: int = BODY_SIZE) -> None:
        self.count = 0
        self.queues = [(f"bench-{topic}", queue) for queue in range(queues) for topic in range(topics)]
        self._store = store
        table = SendTopics[None]()
        for name, queue in self.queues:
            table.put_topic(name, None, queues)
            table.put_queue(name, queue, store.appending.queue_number(name, queue))
        body = bytes(ord("a") + at % 26 for at in range(body_size))
        frames = [_frame(name, queue, body) for name, queue in self.queues]
        frames *= -(-ROUND_MIN // len(frames))
        data = b"".join(frames)
        begins = accumulate([0, *map(len, frames[:-1])])
        keys = [data.index(UNIQUE_KEY.encode(), begin) + len(UNIQUE_KEY) for begin in begins]
        self._key_places = np.array(keys)[:, None] + np.arange(KEY_DIGITS)
        self._frames = np.frombuffer(data, np.uint8).copy()
        kernels.load()
        template = ResponseTemplate(("msgId", "queueId", "queueOffset", "transactionId"), {})
        self._batch = SendBatch(table, constants_of(template, properties.encode(ADDED), HOST), 1 << 22)

    def up_to(self, size: int) -> None:
        """Append until the log has ``size`` bytes, but for what a round may take."""
        most = BODY_SIZE + 256
        while self._store.written_offset + len(self._key_places) * most < size:
            self.round()

    def round(self) -> None:
        """Append a message to each queue, or some to each if they are few."""
        count = len(self._key_places)
        digits = np.arange(self.count, self.count + count)[:, None] >> SHIFTS & 15
        self._frames[self._key_places] = DIGITS[digits]
        ops, frames = kernels.loading.ops, Frames(count=count)
        frames.begin([bytes(self._frames)])
        ops.frames.read(frames)
        while frames.runs[0].first < count:
            self._append(ops, frames)

    def _append(self, ops: Ops, frames: Frames) -> None:
        """Append the messages of the frames that come next."""
        store, batch = self._store, self._batch
        run = frames.runs[0]
        self.count += store.appending.sends(ops.sends, batch, frames, sized_host(HOST))
        if run.commands_end > run.done:
            name, queue = self.queues[0]
            store.append(
                [NewMessage(name, queue, bytes(BODY_SIZE), b"", 0, HOST, HOST)]
            )  # makes the next file
            self.count += 1
        frames.begin_run(run, run.commands_end)


def _frame(topic: str, queue_id: int, body: bytes) -> bytes:
    fields = {
        "a": "load",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1795255006748",
        "h": "0",
        "i": f"UNIQ_KEY\1{UNIQUE_KEY}{'0' * KEY_DIGITS}\2WAIT\1true\2",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    return encode(Command(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=body))


if __name__ == "__main__":
    main()
