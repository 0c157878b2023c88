"""What the gRPC proxy costs, beside RocketMQ's own in front of the same broker, and beside an empty service.

    python -m benches.bench_proxy [--calls 20000] [--warm-up 20000] [--rounds 5] [--seconds 20] [--rate 500]
                                [--idle 30] [--no-java]

Sends of 200 bytes, and receive + acknowledgement of 32 messages at a time, 32 calls in flight on four
connections, by clients in one process: to an empty service on the same transport, which answers sends at
once; to one on grpcio, which could take that transport's place; to ``cometmq proxy``, with one worker and
with two, on 16 connections; and to RocketMQ's proxy in cluster mode. The warm-up is done before each of them,
as Java compiles what has run for some seconds. CPU is that of the server's processes, user and system, per
message.

Then a client of remoting sends 100 messages a second to the broker: alone, and while another remoting client
sends ``--rate`` messages a second, while the proxy gets so many, and while an empty gRPC service does, in
turn; shown is what the broker took for its answers, the medians of the rounds. It has a core for itself
there, as if the proxy and all clients were on other machines. Last, 1,000 clients with a stream each that
send a heartbeat every ten seconds, and 200 long polls, are idle. ``--no-java`` leaves RocketMQ's out.

All processes share the machine's cores elsewhere: a rate is what the machine does, not the proxy alone.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import grpc
import numpy as np
import uvloop
from benches import kit
from benches.answer_times import answer_times, own_core
from benches.grpc_load import AHEAD, BODY, CONNECTIONS, GROUP, grpc_load
from benches.idle_clients import POLLS, STREAMS, create_quiet_topic, idle
from benches.start import send_frame
from tests.interop import peers
from tests.interop.proxies import rocketmq_proxy

from cometmq.admin.groups import create
from cometmq.admin.topics import TopicAdmin
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import OK
from cometmq.proxy.transport import SERVICE, Call, GrpcServer
from cometmq.wire.bodies.group import GroupConfig

LOADED: Final = "BenchProxyLoaded"
STEADY: Final = "BenchProxySteady"
TOPICS: Final = {"one": "BenchProxyOne", "two": "BenchProxyTwo", "java": "BenchProxyJava"}
WORKERS: Final = 2
MANY_CONNECTIONS: Final = 16
"""So many the kernel spreads over two workers somewhat evenly."""
HEAP: Final = ("-Xms512m", "-Xmx1g")
STEADY_RATE: Final = 100
LONGER_S: Final = 2.0
"""So much longer than the sends by remoting lasts what they are beside."""


async def serve_nothing(port: int) -> None:
    """Answer each send at once, on the proxy's transport."""

    async def send(request: pb.SendMessageRequest, _: Call) -> pb.SendMessageResponse:
        return stored(request)

    await GrpcServer({"SendMessage": send}).start(peers.HOST, port)
    print("ready: proxy", flush=True)
    await asyncio.Event().wait()


async def serve_nothing_on_grpcio(port: int) -> None:
    """Answer each send at once, on grpcio."""

    async def send(request: pb.SendMessageRequest, _: object) -> pb.SendMessageResponse:
        return stored(request)

    handler = grpc.unary_unary_rpc_method_handler(
        send, pb.SendMessageRequest.FromString, pb.SendMessageResponse.SerializeToString
    )
    grpcio = grpc.aio.server()
    grpcio.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"SendMessage": handler}),)
    )
    grpcio.add_insecure_port(f"{peers.HOST}:{port}")
    await grpcio.start()
    print("ready: proxy", flush=True)
    await grpcio.wait_for_termination()


EMPTY: Final = {"grpclib": serve_nothing, "grpcio": serve_nothing_on_grpcio}
"""The empty services, by their transports."""


def stored(request: pb.SendMessageRequest) -> pb.SendMessageResponse:
    """Return the answer to a send of one message that is stored."""
    identity = request.messages[0].system_properties.message_id
    return pb.SendMessageResponse(
        status=OK, entries=[pb.SendResultEntry(status=OK, message_id=identity, transaction_id=identity)]
    )


@contextmanager
def server(*command: str) -> Iterator[int]:
    """Run a server; provide its process id."""
    with peers.Process(
        [sys.executable, "-m", *command], ready="ready: proxy", environment=os.environ
    ) as child:
        yield child.pid


@contextmanager
def cometmq_proxy(namesrv: str, *options: str) -> Iterator[tuple[str, list[int]]]:
    """Run ``cometmq proxy``; provide its address, and the ids of the processes that serve."""
    port = peers.free_port()
    command = ("cometmq.cli.main", "proxy", "--namesrv", namesrv, "--port", str(port), *options)
    with server(*command) as pid:
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        yield f"{peers.HOST}:{port}", [pid, *map(int, workers)]


async def measure(what: str, pids: list[int], work: Callable[[int], Awaitable[int]], messages: int) -> None:
    """Wait until so many messages are sent or received; print the rate, and the servers' CPU time."""

    def cost_s() -> float:
        return sum(map(kit.cpu_s, pids))

    began, cpu_s = time.perf_counter(), cost_s()
    done = await work(messages)
    took_s, cpu_s = time.perf_counter() - began, cost_s() - cpu_s
    print(f"  {what:24} {done / took_s:8,.0f} messages/s {cpu_s / done * 1e6:8,.0f} µs CPU each", flush=True)


async def measure_proxy(
    address: str, pids: list[int], topic: str, options: argparse.Namespace, connections: int = CONNECTIONS
) -> None:
    """Measure a proxy: send, then receive and acknowledge, each when it is warm."""
    async with grpc_load(address, topic, connections=connections) as load:
        await load.send(options.warm_up + AHEAD)
        await measure("send", pids, load.send, options.calls)
        await load.receive(options.warm_up)
        await measure("receive and acknowledge", pids, load.receive, options.calls)


async def measure_nothing(address: str, pid: int, options: argparse.Namespace) -> None:
    """Measure the empty service."""
    async with grpc_load(address, LOADED, with_settings=False) as load:
        await load.send(options.warm_up)
        await measure("send", [pid], load.send, options.calls)


def measure_remoting(peer: peers.Peer, address: str, empty: str, options: argparse.Namespace) -> None:
    """Send to the broker by remoting, alone and beside each load in turn; print how long it took to answer.

    Args:
        address, empty: of the proxy and of an empty service, which asks nothing of the broker: what takes
            longer beside that one, too, is not the broker's doing.
    """
    rate = (LOADED, str(options.rate))
    beside = f"beside {options.rate:,.0f}/s"
    loads = {
        "alone": (),
        f"{beside} to an empty service": ("grpc", empty, *rate),
        f"{beside} through the proxy": ("grpc", address, *rate),
        f"{beside} by remoting": ("remoting", peer.namesrv, *rate),
    }
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in loads}
    for _ in range(options.rounds):
        for what, load in loads.items():
            found[what].append(send_beside(peer, load, options.seconds))
    for what, rounds in found.items():
        p50, p99 = np.median(rounds, axis=0)
        each = " ".join(f"{one:.2f}" for _, one in rounds)
        print(f"  {what:32} p50 {p50:6.2f} ms, p99 {p99:6.2f} ms (of the rounds: {each})", flush=True)


def send_beside(peer: peers.Peer, load: Sequence[str], seconds: float) -> tuple[float, float]:
    """Send to the broker by remoting, beside a load if one is given; return median and p99 of the times, ms.

    Raises AssertionError: the broker refused a send.
    """
    port = int(peer.broker.rpartition(":")[2])
    with ExitStack() as stack:
        if load:
            command = [sys.executable, "-m", "benches.grpc_load", *load, str(seconds + LONGER_S)]
            child = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            assert child.stdout is not None
            assert child.stdout.readline() == "begins\n"
        times_ms = answer_times(port, send_frame(STEADY, body=BODY), STEADY_RATE, seconds)
        if load:
            sent = child.communicate()[0].strip()
            assert sent.endswith(" 0 failed"), f"{' '.join(load)}: {sent}"
    p50, p99 = np.percentile(times_ms, (50, 99))
    return float(p50), float(p99)


async def prepare(namesrv: str) -> None:
    """Create the topics and the group of the loads."""
    async with TopicAdmin(namesrv) as admin:
        for topic in (*TOPICS.values(), LOADED, STEADY):
            await admin.create(topic, queues=4)
        await create(admin, GroupConfig(group=GROUP))
    await create_quiet_topic(namesrv)


def measure_all(folder: Path, options: argparse.Namespace) -> None:
    """Measure all, one after the other."""
    for transport in EMPTY:
        print(f"empty service on {transport}")
        port = peers.free_port()
        with server("benches.bench_proxy", "--nothing", transport, str(port)) as pid:
            uvloop.run(measure_nothing(f"{peers.HOST}:{port}", pid, options))
    with peers.cometmq(folder / "store") as peer:
        asyncio.run(prepare(peer.namesrv))
        with cometmq_proxy(peer.namesrv) as (address, pids):
            print("cometmq proxy")
            uvloop.run(measure_proxy(address, pids, TOPICS["one"], options))
        with cometmq_proxy(peer.namesrv, "--workers", str(WORKERS)) as (address, pids):
            print(f"cometmq proxy, {WORKERS} workers, {MANY_CONNECTIONS} connections")
            uvloop.run(measure_proxy(address, pids, TOPICS["two"], options, MANY_CONNECTIONS))
        if not options.no_java:
            with rocketmq_proxy(folder / "java", peer.namesrv, options=HEAP) as (address, pid):
                print("RocketMQ's proxy")
                uvloop.run(measure_proxy(address, [pid], TOPICS["java"], options))
        port = peers.free_port()
        nothing = server("benches.bench_proxy", "--nothing", "grpclib", str(port))
        with own_core(peer.pid), cometmq_proxy(peer.namesrv) as (address, _), nothing:
            print(f"{STEADY_RATE} sends/s by remoting")
            measure_remoting(peer, address, f"{peers.HOST}:{port}", options)
        if not options.idle:
            return
        with cometmq_proxy(peer.namesrv) as (address, pids):
            cost = uvloop.run(idle(address, pids[0], options.idle))
            print(f"{STREAMS:,} idle streams, {POLLS} long polls\n  {cost}")


def main() -> None:
    """Measure all, or serve nothing."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_proxy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--calls", type=int, default=20_000, help="messages of each measurement")
    parser.add_argument("--warm-up", type=int, default=20_000, help="messages before each of them")
    parser.add_argument("--rounds", type=int, default=5, help="measurements by remoting, each way")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of them")
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second beside it")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of the idle clients; 0 for none")
    parser.add_argument("--no-java", action="store_true", help="leave RocketMQ's proxy out")
    parser.add_argument("--nothing", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nothing:
        transport, port = options.nothing
        uvloop.run(EMPTY[transport](int(port)))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure_all(Path(folder), options)


if __name__ == "__main__":
    main()
