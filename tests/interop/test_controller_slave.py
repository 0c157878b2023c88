"""A slave of a RocketMQ master under the controller: CometMQ's side of the connection takes its log over."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from tests.interop import peers
from tests.interop.patience import PATIENCE_S

from cometmq import Message, Producer
from cometmq.format import layout
from cometmq.format.message_id import parse_offset_message_id
from cometmq.replication.controller.frames import MasterFrames
from cometmq.replication.controller.slave_side import (
    AppendBytes,
    Confirm,
    SaveEpochs,
    SendReport,
    SlaveAction,
    SlaveSide,
    TruncateLog,
)
from cometmq.replication.epochs import EpochList, decode_epochs

pytestmark = pytest.mark.interop

LEARNER: Final = 9
"""An id that the controller does not know: such a slave gets data, and is in no set."""
COUNT: Final = 40


class Copy:
    """A slave's log in memory."""

    def __init__(self) -> None:
        self.log = bytearray()
        self.epochs = EpochList()
        self.truncated_at: list[int] = []
        self.confirmed = 0

    async def follow(self, ha_address: str, last: int) -> None:
        """Copy a master's log until the record at an offset is there, and confirmed."""
        host, _, port = ha_address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        side, frames = SlaveSide(self.epochs, len(self.log)), MasterFrames()
        writer.write(side.handshake(LEARNER, learner=True))
        try:
            while self.confirmed <= last:
                data = await reader.read(65_536)
                assert data, "the master closed the connection"
                for frame in frames.receive(data):
                    writer.write(self.carry_out(side, side.received(frame)))
        finally:
            writer.transport.abort()

    def carry_out(self, side: SlaveSide, actions: list[SlaveAction]) -> bytes:
        sent = b""
        for action in actions:
            match action:
                case TruncateLog(offset):
                    self.truncated_at.append(offset)
                    del self.log[offset:]
                    sent += self.carry_out(side, side.truncated())
                case SaveEpochs(epochs):
                    self.epochs = epochs
                case AppendBytes(offset, data):
                    assert offset == len(self.log)
                    self.log += data
                case Confirm(offset):
                    self.confirmed = offset
                case SendReport(report):
                    sent += report.encode()
        return sent


async def test_the_log_of_a_java_master_is_copied_byte_by_byte_and_continued(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with peers.rocketmq_namesrv_with_controller(tmp_path / "namesrv") as (namesrv, controller):
        settings = {
            **peers.PATIENT,
            "brokerName": peers.BROKER_NAME,
            "enableControllerMode": "true",
            "controllerAddr": controller,
            "mappedFileSizeCommitLog": 8 * 1024,
            "haSendHeartbeatInterval": 200,
        }
        with peers.rocketmq_broker(store, namesrv, settings) as master:
            host, _, port = master.broker.partition(":")
            ha_address = f"{host}:{int(port) + 1}"
            copy = Copy()
            async with asyncio.timeout(PATIENCE_S), Producer(namesrv) as producer:
                await copy.follow(ha_address, await send(producer))
                assert copy.epochs == decode_epochs((store / "epochFileCheckpoint").read_bytes())
                assert copy.log == written(store, len(copy.log))

                kept = len(copy.log)
                copy.log += b"of no other broker"  # as of a master that went on alone, in an epoch of its own
                copy.epochs = copy.epochs.append(copy.epochs.last_epoch + 5, kept)
                await copy.follow(ha_address, await send(producer))
                assert copy.truncated_at == [kept]
                assert copy.log == written(store, len(copy.log))
                assert copy.epochs == decode_epochs((store / "epochFileCheckpoint").read_bytes())


async def send(producer: Producer) -> int:
    """Send some messages; return the CommitLog offset of the last one."""
    results = [await producer.send(Message("Copied", b"%03d" % n * 100)) for n in range(COUNT)]
    return max(parse_offset_message_id(result.offset_id).physical_offset for result in results)


def written(store: Path, end: int) -> bytes:
    files = sorted(layout.commitlog_dir(store).iterdir())
    return b"".join(path.read_bytes() for path in files)[:end]
