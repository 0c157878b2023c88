"""A name server and a broker go away and come back: the Python clients outlive that, and lose nothing."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.patience import PROGRAM_S

from cometmq import Consumer, Message, Producer, Start, StoredMessage
from cometmq.errors import CometMQError

pytestmark = pytest.mark.interop

TOPIC = "Restarted"
COUNT = 300  # on either side of the restart


@pytest.mark.parametrize(
    ("name", "ended_by"),
    [
        ("rocketmq", signal.SIGTERM),
        pytest.param("rocketmq", signal.SIGKILL, marks=pytest.mark.interop_long),
        ("cometmq", signal.SIGTERM),
        ("cometmq", signal.SIGKILL),
    ],
)
def test_the_clients_outlive_a_restart_of_all_servers(
    name: str, ended_by: signal.Signals, tmp_path: Path
) -> None:
    """Lasts half a minute with a Java broker: it needs 5 s to start and 10 s to stop, both twice."""
    port, namesrv_port = peers.free_port(), peers.free_port()
    name_server = f"{peers.HOST}:{namesrv_port}"

    def servers() -> contextlib.AbstractContextManager[peers.Peer]:
        return peers.START[name](
            tmp_path / "store", peers.PATIENT, port=port, namesrv_port=namesrv_port, ended_by=ended_by
        )

    async def main() -> None:
        got: set[bytes] = set()
        arrived = asyncio.Event()
        consumer = Consumer(name_server, "restarted", start=Start.FIRST)

        @consumer.on(TOPIC)
        async def handle(message: StoredMessage) -> None:
            got.add(message.body)
            arrived.set()

        async with Producer(name_server, "restarted") as producer:
            async with in_thread(servers()):
                await producer.send(Message(TOPIC, b"makes the topic"))
                await consumer.start()
                before = await sent(producer, "before", COUNT)
            going_on = asyncio.create_task(sent(producer, "since", COUNT))  # while nobody is there
            async with in_thread(servers()):
                since = await going_on
                while not before | since <= got:
                    arrived.clear()
                    await arrived.wait()
                await consumer.stop()

    asyncio.run(asyncio.wait_for(main(), PROGRAM_S))


async def sent(producer: Producer, name: str, count: int) -> set[bytes]:
    """Send some messages, each until it is acknowledged."""
    bodies = {f"{name} {number}".encode() for number in range(count)}
    for body in bodies:
        while True:
            try:
                await producer.send(Message(TOPIC, body))
                break
            except CometMQError:
                await asyncio.sleep(0.1)  # as an application would: nobody is there to tell when to go on
    return bodies


@asynccontextmanager
async def in_thread(servers: contextlib.AbstractContextManager[peers.Peer]) -> AsyncIterator[None]:
    """Start and stop in a thread, so that clients go on meanwhile."""
    await asyncio.to_thread(servers.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(servers.__exit__, None, None, None)
