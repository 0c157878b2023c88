"""Which files and functions one warm request of each kind goes through, and how much an idle broker does.

    python -m benches.trace_requests [--calls] [--idle-s 10]

The calls of the loop's thread are counted by ``sys.setprofile``, from the bytes that a connection reads
to the bytes of the response, compiled and plain. ``--calls`` lists the functions in the order of their first
call. An idle broker is one that serves nobody, counted for some seconds after it has started.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

import uvloop
from benches.bench_bulk_sends import QUEUES, connected, frame_of, wait_for_topics
from benches.bench_pops import fields_of, handles_of
from benches.bench_pulls import Bench

import cometmq
from cometmq import kernels
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.net.server import Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import SerializeType

PACKAGE: Final = str(Path(cometmq.__file__).parent)
WARM_UPS: Final = 20
START_S: Final = 3.0


def main() -> None:
    """Trace the requests, plain and compiled, and an idle broker; print a table."""
    parser = argparse.ArgumentParser(prog="python -m benches.trace_requests", description="count calls")
    parser.add_argument("--calls", action="store_true", help="list the functions")
    parser.add_argument("--idle-s", type=float, default=10, help="how long an idle broker is traced")
    arguments = parser.parse_args()
    print(f"{'request':<18}{'calls':>8}{'functions':>12}{'files':>8}")
    for body in (kernels.serving(), "compiled"):
        if body == "compiled":
            kernels.load()
        with tempfile.TemporaryDirectory(prefix="cometmq-trace-") as folder:
            for name, calls in uvloop.run(trace(Path(folder))).items():
                files = {code.co_filename for code in calls}
                print(f"{f'{name}, {body}':<18}{calls.total():>8}{len(calls):>12}{len(files):>8}")
                if arguments.calls:
                    print("".join(f"    {place(code)} × {count}\n" for code, count in calls.items()), end="")
    if arguments.idle_s:
        with tempfile.TemporaryDirectory(prefix="cometmq-trace-") as folder:
            calls = uvloop.run(idle(Path(folder), arguments.idle_s))
        print(f"idle broker: {calls.total() / arguments.idle_s:.0f} calls a second")
        for code, count in calls.most_common(None if arguments.calls else 10):
            print(f"    {place(code)} × {count / arguments.idle_s:.1f}")


async def trace(directory: Path) -> dict[str, Counter[CodeType]]:
    """Return the calls of one request of each kind: a pull and a query find a message."""
    with connected(directory, StoreSettings(), is_null=False) as (server, session, store):
        await wait_for_topics(store)
        bench = Bench(server, session, SerializeType.JSON)
        for _ in range(QUEUES):
            bench.sends()  # what handles name must be there
        handles = iter(handles_of(QUEUES))
        make_frame: dict[str, Callable[[], bytes]] = {
            "send": lambda: frame_of(0, 0, bench.number()),
            "pull": lambda: bench.pull(0, 0, 0, 1),
            "ack": lambda: bench.command(RequestCode.ACK_MESSAGE, **fields_of(next(handles))),
            "query": lambda: bench.command(RequestCode.VIEW_MESSAGE_BY_ID, offset="0", topic="bench-0"),
        }
        for _ in range(WARM_UPS):  # afterwards the files that are read are mapped
            for make in make_frame.values():
                _handle(server, session, make())
            await asyncio.sleep(0)
        found = {}
        for name, make in make_frame.items():
            frame = make()
            with counted() as found[name]:
                _handle(server, session, frame)
    return found


async def idle(directory: Path, seconds: float) -> Counter[CodeType]:
    """Return the calls of a broker that has started and serves nobody."""
    settings = BrokerSettings.of(listen_port=0, broker_ip="127.0.0.1", store_path_root_dir=str(directory))
    broker = Broker(settings)
    await broker.start()
    try:
        await asyncio.sleep(START_S)
        with counted() as calls:
            await asyncio.sleep(seconds)
    finally:
        await broker.stop()
    return calls


@contextmanager
def counted() -> Iterator[Counter[CodeType]]:
    """Count the calls of the package's functions by this thread, by their code."""
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls[frame.f_code] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def place(code: CodeType) -> str:
    """Return where a function is: ``store/log/commit_log.py append``."""
    return f"{Path(code.co_filename).relative_to(PACKAGE)} {code.co_qualname}"


def _handle(server: Server, session: Session, data: bytes) -> None:
    session.data_received(data)
    server.turn.handle()


if __name__ == "__main__":
    main()
