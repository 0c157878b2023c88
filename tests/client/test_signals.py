"""A program that runs consumers ends cleanly by the signals that end programs."""

import asyncio
import signal
import sys
import threading

import pytest

from cometmq.client import Consumer, Producer
from cometmq.client.signals import stopped_by_signals
from cometmq.message import Message
from cometmq.testing import AsyncEmbeddedBroker

PATIENCE_S = 60
PROGRAM = """
import asyncio, sys
from cometmq import Consumer, Start

def consumer(group, handle_s):
    one = Consumer(sys.argv[1], group, start=Start.FIRST)

    @one.on("Orders")
    async def handle(message):
        print("handles", flush=True)
        await asyncio.sleep(handle_s)
        print("handled", flush=True)

    return one

async def main():
    await asyncio.gather(*(consumer(f"g{n}", float(sys.argv[2])).run() for n in range(2)))
    print("clean", flush=True)

asyncio.run(main())
"""


async def program(name_server: str, handle_s: float) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, name_server, str(handle_s), stdout=pipe, stderr=pipe
    )


async def both_handle(running: asyncio.subprocess.Process) -> None:
    assert running.stdout is not None
    for _ in range(2):
        assert await running.stdout.readline() == b"handles\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_stops_consumers_gracefully(
    how: signal.Signals, rocketmq_async: AsyncEmbeddedBroker
) -> None:
    async with asyncio.timeout(PATIENCE_S), Producer(rocketmq_async.name_server) as producer:
        await producer.send(Message("Orders", b"paid"))
        running = await program(rocketmq_async.name_server, 0.5)
        await both_handle(running)
        running.send_signal(how)
        output, errors = await running.communicate()
    assert (output, errors, running.returncode) == (b"handled\nhandled\nclean\n", b"", 0)


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
async def test_a_second_signal_cuts_the_handlers_off(
    how: signal.Signals, code: int, rocketmq_async: AsyncEmbeddedBroker
) -> None:
    async with asyncio.timeout(PATIENCE_S), Producer(rocketmq_async.name_server) as producer:
        await producer.send(Message("Orders", b"paid"))
        running = await program(rocketmq_async.name_server, 3_600)
        await both_handle(running)
        running.send_signal(how)
        await asyncio.sleep(0.5)  # two signals at a time would count as one
        running.send_signal(how)
        output, _ = await running.communicate()
    assert (output, running.returncode) == (b"", code)


async def test_a_signal_ends_a_start_that_waits_for_a_name_server() -> None:
    consumer = Consumer("127.0.0.1:1", "readers")
    consumer.subscribe("Orders", print)
    async with asyncio.timeout(PATIENCE_S):
        asyncio.get_running_loop().call_later(0.1, signal.raise_signal, signal.SIGTERM)
        await consumer.run()


async def test_the_application_s_own_handlers_stay() -> None:
    loop, own, stop = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, own.set)
    try:
        with stopped_by_signals(stop.set):
            signal.raise_signal(signal.SIGTERM)
            await own.wait()
        own.clear()
        signal.raise_signal(signal.SIGTERM)
        await own.wait()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    assert not stop.is_set()


async def test_the_handlers_from_before_are_restored() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    with stopped_by_signals(print):
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before


def test_in_another_thread_nothing_is_changed() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), list[object]()

    def run() -> None:
        with stopped_by_signals(print):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
