"""Brokers as processes: the real Apache RocketMQ and CometMQ, started and stopped alike.

``rocketmq`` and ``cometmq`` are context managers over a store directory. Each gives a ``Peer`` that answers
requests, and stops it cleanly at the end, so that two of them nested one after the other on one directory
are a store's move from one broker to the other. Ports are free loopback ones; processes are ended by their
id, and die with the test run even when that is killed.
"""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop import class_archive, jvm, ports, remoting
from tests.interop.patience import patient_clients, wait_until

HOST, free_port = ports.HOST, ports.free_port
BROKER_NAME = "broker-a"
"""For tests in which it matters: a handle names the broker that gave it."""
START_TIMEOUT_S = 300  # on a busy machine; a quiet one needs 5
STOP_TIMEOUT_S = 300  # a Java broker sleeps for 10 s of it
OUTPUT_LINES_KEPT = 200

# A broker refuses a send that has waited in its queue for 200 ms, or while an append takes a second, and
# drops it if it is oneway; on a slow machine a burst of 10,000 waits longer.
PATIENT: dict[str, object] = {"waitTimeMillsInSendQueue": 20_000, "osPageCacheBusyTimeOutMills": 20_000}
# A Java broker that nothing is asked of would keep a processor busy for its first ten seconds, and a fifth of
# one later: one thread does not rest before its first interval has passed, another compares the 38 MB of the
# timer's wheel byte by byte each second.
RESTS: dict[str, object] = {"transactionMetricFlushInterval": 500, "timerFlushIntervalMs": 5_000}

CONTROLLER_OPENS = ("--add-opens=java.base/java.util=ALL-UNNAMED",)
HEAP = (*jvm.SMALL_HEAP, "-XX:MaxDirectMemorySize=512m", *jvm.QUICK_START)


@dataclass(frozen=True)
class Peer:
    """A broker and its name server that answer requests.

    Attributes:
        name: which product it is: ``rocketmq`` or ``cometmq``.
        namesrv: the name server's address, ``host:port``.
        broker: the broker's address, ``host:port``.
        pid: the broker's process id.
        store: its store directory.
    """

    name: str
    namesrv: str
    broker: str
    pid: int
    store: Path


class Process:
    """A child process that is ready to serve: it has printed its ready text.

    As a context manager it ends the child by a signal: SIGTERM, or SIGKILL for a crash.

    Raises:
        AssertionError: it ended, or was silent, before it was ready; says what it printed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        ready: str,
        environment: Mapping[str, str],
        ended_by: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._ready_text = ready
        self._ended_by = ended_by
        self._ready_or_ended = threading.Event()
        self._is_ready = False
        self._output: deque[str] = deque(maxlen=OUTPUT_LINES_KEPT)
        self._child = subprocess.Popen(
            [*jvm.dies_with_parent(), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()
        self._ready_or_ended.wait(START_TIMEOUT_S)
        if not self._is_ready:
            self._end(signal.SIGKILL)
            raise AssertionError(f"{' '.join(command)}\nwas not ready:\n{self.output}")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def output(self) -> str:
        """The last lines that it printed."""
        return "".join(self._output)

    def ends_within(self, seconds: float) -> bool:
        """Wait a while; tell whether it ended in it."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._ended_by)

    def _end(self, with_signal: signal.Signals) -> None:
        try:
            if self._child.poll() is None:
                self._child.send_signal(with_signal)
                self._child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            raise AssertionError(f"did not stop within {STOP_TIMEOUT_S} s:\n{self.output}") from None
        finally:
            self._reader.join()

    def _read_output(self) -> None:
        assert self._child.stdout
        with self._child.stdout as lines:
            for line in lines:
                self._output.append(line)
                if self._ready_text in line:
                    self._is_ready = True
                    self._ready_or_ended.set()
        self._ready_or_ended.set()


@contextlib.contextmanager
def rocketmq(
    store: Path,
    settings: Mapping[str, object] | None = None,
    *,
    port: int | None = None,
    namesrv_port: int | None = None,
    ended_by: signal.Signals = signal.SIGTERM,
    heap: Sequence[str] = HEAP,
) -> Iterator[Peer]:
    """Run the real name server and broker on ``store``; ``settings`` are added to broker.conf."""
    with (
        rocketmq_namesrv(store.with_name(f"{store.name}-rocketmq"), port=namesrv_port) as namesrv,
        rocketmq_broker(store, namesrv, settings, port=port, ended_by=ended_by, heap=heap) as peer,
    ):
        yield peer


@contextlib.contextmanager
def rocketmq_namesrv(
    home: Path,
    *,
    port: int | None = None,
    options: Sequence[str] = (),
    added: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Run the real name server alone, with more options of Java's and settings, and return its address."""
    home.mkdir(parents=True, exist_ok=True)
    address = f"{HOST}:{port or free_port()}"
    settings = {
        "listenPort": address.partition(":")[2],
        "bindAddress": HOST,
        "kvConfigPath": home / "kv.json",
        "configStorePath": home / "namesrv.properties",
        **(added or {}),
    }
    with (
        _java_process(
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            home,
            "-c",
            write_settings(home / "namesrv.conf", settings),
            ended_by=signal.SIGKILL,  # it keeps nothing, and a clean stop takes it seconds
            options=(*jvm.SMALL_HEAP, *jvm.QUICK_START, *options),
        ),
        patient_clients(address),
    ):
        yield address


@contextlib.contextmanager
def rocketmq_controller(home: Path) -> Iterator[str]:
    """Run the real controller alone, until it is the leader of one, and return its address."""
    home.mkdir(parents=True, exist_ok=True)
    address = f"{HOST}:{free_port()}"
    with _java_process(
        "org.apache.rocketmq.controller.ControllerStartup",
        home,
        "-c",
        write_settings(home / "controller.conf", _controller_settings(home, address)),
        ended_by=signal.SIGKILL,
        options=("-Xms64m", "-Xmx160m", *jvm.QUICK_START, *jvm.BROKER_OPENS, *CONTROLLER_OPENS),
    ):
        _await_leader(address)
        yield address


@contextlib.contextmanager
def rocketmq_broker(
    store: Path,
    namesrv: str,
    settings: Mapping[str, object] | None = None,
    *,
    port: int | None = None,
    ended_by: signal.Signals = signal.SIGTERM,
    heap: Sequence[str] = HEAP,
    context: ssl.SSLContext | None = None,
) -> Iterator[Peer]:
    """Run the real broker alone, for a name server that runs already, with TLS if there is a context."""
    home = store.with_name(f"{store.name}-rocketmq")
    home.mkdir(parents=True, exist_ok=True)
    address = f"{HOST}:{port or free_port()}"
    broker_conf = {
        "listenPort": address.partition(":")[2],
        "bindAddress": HOST,
        "brokerIP1": HOST,
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        **RESTS,
        **(settings or {}),
    }
    with _java_process(
        "org.apache.rocketmq.broker.BrokerStartup",
        home,
        "-c",
        write_settings(home / "broker.conf", broker_conf),
        ended_by=ended_by,
        options=(*heap, *jvm.BROKER_OPENS),
    ) as broker:
        _await_registration(broker, namesrv, address, context)
        with patient_clients(address):
            yield Peer("rocketmq", namesrv, address, broker.pid, store)


@contextlib.contextmanager
def cometmq(
    store: Path,
    settings: Mapping[str, object] | None = None,
    *,
    port: int | None = None,
    namesrv_port: int | None = None,
    ended_by: signal.Signals = signal.SIGTERM,
) -> Iterator[Peer]:
    """Run ``cometmq dev`` on ``store``; ``settings`` go to it in a broker.conf, as an operator would do."""
    port = port or free_port()
    namesrv_port = namesrv_port or free_port()
    command = cometmq_command(store, port=port, namesrv_port=namesrv_port)
    addresses = f"{HOST}:{namesrv_port}", f"{HOST}:{port}"
    with _cometmq_process(command, store, settings, ended_by) as broker, patient_clients(*addresses):
        yield Peer("cometmq", *addresses, broker.pid, store)


@contextlib.contextmanager
def cometmq_of(
    program: Path, store: Path, settings: Mapping[str, object], *, ended_by: signal.Signals
) -> Iterator[Peer]:
    """Run ``dev`` of a ``cometmq`` program, such as that of another checkout's environment."""
    port, namesrv_port = free_port(), free_port()
    _, *arguments = cometmq_command(store, port=port, namesrv_port=namesrv_port)
    addresses = f"{HOST}:{namesrv_port}", f"{HOST}:{port}"
    command = [str(program), *arguments]
    with _cometmq_process(command, store, settings, ended_by) as broker, patient_clients(*addresses):
        yield Peer("cometmq", *addresses, broker.pid, store)


@contextlib.contextmanager
def cometmq_broker(
    store: Path,
    namesrv: str,
    settings: Mapping[str, object] | None = None,
    *,
    port: int | None = None,
    ended_by: signal.Signals = signal.SIGTERM,
    context: ssl.SSLContext | None = None,
) -> Iterator[Peer]:
    """Run ``cometmq broker`` alone, for name servers that run already, with TLS if there is a context."""
    address = f"{HOST}:{port or free_port()}"
    options = ("--host", HOST, "--port", address.partition(":")[2], "--store", str(store))
    command = [cometmq_program(), "broker", "--namesrv", namesrv, *options]
    with _cometmq_process(command, store, settings, ended_by) as broker:
        for each in namesrv.split(";"):
            _await_registration(broker, each, address, context)
        with patient_clients(address):
            yield Peer("cometmq", namesrv, address, broker.pid, store)


@contextlib.contextmanager
def cometmq_namesrv(_home: Path | None = None, *, options: Sequence[str] = ()) -> Iterator[str]:
    """Run ``cometmq namesrv`` alone, which has no files, and return its address."""
    address = f"{HOST}:{free_port()}"
    command = [cometmq_program(), "namesrv", "--host", HOST, "--port", address.partition(":")[2]]
    command += options
    with Process(command, ready="ready: name server ", environment=os.environ):
        yield address


@contextlib.contextmanager
def rocketmq_namesrv_with_controller(home: Path) -> Iterator[tuple[str, str]]:
    """Run the real name server with a controller in it; return the addresses of both."""
    controller = f"{HOST}:{free_port()}"
    added = {"enableControllerInNamesrv": "true", **_controller_settings(home, controller)}
    with rocketmq_namesrv(home, options=(*jvm.BROKER_OPENS, *CONTROLLER_OPENS), added=added) as namesrv:
        _await_leader(controller)
        yield namesrv, controller


START = {"rocketmq": rocketmq, "cometmq": cometmq}
START_BROKER = {"rocketmq": rocketmq_broker, "cometmq": cometmq_broker}
START_NAMESRV: dict[str, Callable[[Path], contextlib.AbstractContextManager[str]]] = {
    "rocketmq": rocketmq_namesrv,
    "cometmq": cometmq_namesrv,
}


def cometmq_command(store: Path, *, port: int, namesrv_port: int) -> list[str]:
    """Return the command line of ``cometmq dev`` from this interpreter's environment."""
    return [
        cometmq_program(),
        "dev",
        *("--host", HOST),
        *("--port", str(port)),
        *("--namesrv-port", str(namesrv_port)),
        *("--store", str(store)),
    ]


def write_settings(path: Path, settings: Mapping[str, object]) -> Path:
    """Write a Java properties file, the format of broker.conf."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _controller_settings(home: Path, address: str) -> dict[str, object]:
    return {
        "controllerDLegerGroup": "group1",
        "controllerDLegerPeers": f"n0-{address}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": home / "controller",
        "mappedFileSize": 1024 * 1024,
    }


def cometmq_program() -> str:
    """Return the path of the command ``cometmq`` of this interpreter's environment."""
    return str(Path(sys.executable).with_name("cometmq"))


def _cometmq_process(
    command: Sequence[str], store: Path, settings: Mapping[str, object] | None, ended_by: signal.Signals
) -> Process:
    store.parent.mkdir(parents=True, exist_ok=True)
    if settings:
        path = write_settings(store.with_name(f"{store.name}-broker.conf"), settings)
        command = [*command, "--config", str(path)]
    return Process(command, ready="ready: broker ", environment=os.environ, ended_by=ended_by)


def _java_process(
    main_class: str,
    home: Path,
    *arguments: object,
    ended_by: signal.Signals,
    options: Sequence[str] = (*jvm.SMALL_HEAP, *jvm.QUICK_START),
) -> Process:
    return Process(
        jvm.command(main_class, *arguments, home=home, options=(*options, *class_archive.options())),
        ready="boot success",
        environment=jvm.environment(home),
        ended_by=ended_by,
    )


def _await_registration(
    broker: Process, namesrv: str, address: str, context: ssl.SSLContext | None = None
) -> None:
    """Wait until the name server gives the broker as a route for new topics.

    RocketMQ's broker says that it is up, but when it has not yet connected to the name server by then, it
    registers ten seconds later.
    """
    host, _, port = namesrv.partition(":")
    request = remoting.frame(remoting.GET_ROUTE, {"topic": "TBW102"})
    deadline = time.monotonic() + START_TIMEOUT_S
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, int(port))))
        if context is not None:
            connection = stack.enter_context(context.wrap_socket(connection, server_hostname=host))
        while address.encode() not in remoting.ask(connection, request).body:
            assert not broker.ends_within(0.05), f"the broker ended:\n{broker.output}"
            assert time.monotonic() < deadline, f"the broker has not registered:\n{broker.output}"


def _await_leader(controller: str) -> None:
    """Wait until a controller leads its group of one: before that it does not listen, or refuses."""
    host, _, port = controller.partition(":")
    request = remoting.frame(remoting.GET_REPLICA_INFO, {"brokerName": "nobody"})

    def leads() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as connection:
            return remoting.ask(connection, request).code != remoting.NOT_LEADER
        return False

    wait_until(leads)
