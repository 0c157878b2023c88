"""A broker and a name server inside the process of the tests, with their store in memory.

They run in an event loop of their own, in a thread, so that blocking tests and tests with a loop use
them in the same way, through ``name_server`` like any client. The methods here run in that loop, and return
when they are done.
"""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from cometmq.arguments import COUNT, FLAG, SECONDS, TEXT, check, instance_of, number, one_of, or_none
from cometmq.broker.broker import Broker
from cometmq.broker.name_servers.own_address import LOOPBACK
from cometmq.broker.requests.pull import SUSPEND_MS_MAX
from cometmq.broker.settings import BrokerSettings
from cometmq.cluster.route import queue_of_key
from cometmq.cluster.system_names import AUTO_CREATE_TOPIC
from cometmq.errors import SettingsError
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX, valid_topic
from cometmq.format.properties import REAL_TOPIC
from cometmq.io.clock import SystemClock
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.namesrv.name_server import NameServer
from cometmq.net import inproc
from cometmq.net.min_timeouts import min_timeout, remove_min_timeout
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import TlsSettings
from cometmq.net.tls.throwaway import make_certificate
from cometmq.store.settings import StoreSettings
from cometmq.testing.clock import MovableClock
from cometmq.testing.faults import SENDS, Fault, Faults
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.bodies.topic import MESSAGE_TYPES, TYPE_ATTRIBUTE
from cometmq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from cometmq.proxy.proxy import Proxy

QUEUES: Final = 4

BROKER_NAME: Final = "embedded"
ROOT: Final = Path("/embedded")
STORE: Final = StoreSettings(
    mapped_file_size_commit_log=1 << 24,
    mapped_file_size_consume_queue=20 * 1000,
    max_hash_slot_num=1000,
    max_index_num=4000,
)
"""Files that are created quickly, and are large enough for the largest message."""
LONGEST_DELAY_S: Final = max(DelayLevels.parse(STORE.message_delay_level).delays_ms) / 1000

TIMEOUT_S: Final = 30.0
CLIENTS_WAIT_S: Final = 30.0
"""Minimum timeout of clients in this process, in seconds, so that a busy machine fails no test."""

_T = TypeVar("_T")

LOOK_AGAIN_S: Final = (0.005, 0.1)
"""Pauses between checks of a waiting method, in seconds: the first and the longest."""


class EmbeddedBroker:
    """A RocketMQ for tests; as a context manager it starts and stops.

    Args:
        sockets: whether clients connect by sockets; if not, only those of this process can connect.
        tls: whether they may connect by TLS, too. Its certificate is made by the program ``openssl``.
        credentials: those of a super user; with them each request to the broker must be signed by a user who
            may do what it asks for. None lets everyone do everything. The name server asks for no signature.

    Attributes:
        tls: the argument ``tls`` for clients, which trusts the certificate; None without TLS.
        name_server: the name server's address, for clients: with sockets, ``127.0.0.1`` and a free port.
        clock: the broker's time: ``clock.advance(seconds)`` makes delays and retries due at once.
    """

    name_server: str
    _broker: Broker

    def __init__(
        self, *, sockets: bool = True, tls: bool = False, credentials: Credentials | None = None
    ) -> None:
        check(FLAG, sockets=sockets, tls=tls)
        check(or_none(instance_of(Credentials)), credentials=credentials)
        if tls and not sockets:
            raise SettingsError("tls=True: give sockets=True, since nothing else is encrypted")
        self.tls: TLS | None = None
        self._tls_settings: dict[str, Any] = {}
        self._tls_files = TemporaryDirectory(prefix="cometmq-tls-") if tls else None
        self._credentials = credentials
        self._proxy: Proxy | None = None
        self._own_settings = {} if credentials is None else user_settings(credentials)
        self._host = LOOPBACK if sockets else inproc.HOST
        self.clock = MovableClock(lambda: self._run(self._catch_up()))
        self._thread = ThreadPoolExecutor(1, "cometmq-embedded")
        self._turn = count()
        self._disk = MemoryDisk()
        self._faults = Faults()

    def __enter__(self) -> Self:
        """Start, and wait until clients can connect. Raises SettingsError: there is no ``openssl``."""
        if self._tls_files is not None:
            self.tls, self._tls_settings = made_tls(Path(self._tls_files.name))
            self._own_settings |= self._tls_settings
        started: Future[None] = Future()
        self._serving = self._thread.submit(lambda: asyncio.run(self._serve(started)))
        wait((started, self._serving), return_when=FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; the store is lost."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._serving.result()
        self._thread.shutdown()
        if self._tls_files is not None:
            self._tls_files.cleanup()

    def create_topic(self, topic: str, queues: int = QUEUES, message_type: str = "NORMAL") -> None:
        """Create a topic; when this returns the name server knows it. Raises IllegalName.

        Args:
            message_type: the type of messages that RocketMQ 5 clients may send to it: ``NORMAL``, ``FIFO``,
                ``DELAY``, ``TRANSACTION``, or ``MIXED`` for all of them.
        """
        valid_topic(topic)
        check(number(1), queues=queues)
        check(one_of(*MESSAGE_TYPES), message_type=message_type)
        self._run(self._create_topic(topic, queues, message_type))

    def send(self, message: Message, queue_id: int | None = None) -> StoredMessage:
        """Store a message as if a producer had sent it; planned failures do not affect it.

        Raises IllegalName or MessageIllegal; send delayed messages by a ``Producer``.
        """
        check(instance_of(Message), message=message)
        check(or_none(number(0)), queue_id=queue_id)
        return self._run(self._send(message, queue_id))

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages of a topic, in the order in which they were stored."""
        check(TEXT, topic=topic)
        return self._run(self._messages(topic))

    def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return the messages that a consumer group gave up."""
        check(TEXT, group=group)
        return self.messages(DLQ_PREFIX + group)

    def fail_next(
        self,
        times: int = 1,
        *,
        topic: str | None = None,
        request: int | None = None,
        fault: Fault = Fault.REFUSE,
        answer: int = ResponseCode.SYSTEM_BUSY,
    ) -> None:
        """Inject a fault into the next requests to the broker: sends to a topic, or requests with a code.

        Args:
            times: how many of them; 0 for none.
            topic: only requests that name this topic; without ``request`` only sends.
            request: only requests with this code, of ``cometmq.wire.codes.RequestCode``.
            fault: what happens to them. After ``Fault.IGNORE`` clients no longer have a minimum timeout.
            answer: the response code of ``Fault.REFUSE``.

        Raises SettingsError if neither topic nor request is given, or ``times`` is negative.
        """
        check(number(), times=times, answer=answer)
        check(or_none(TEXT), topic=topic)
        check(or_none(number()), request=request)
        check(instance_of(Fault), fault=fault)
        if topic is None and request is None:
            raise SettingsError("fail_next: say which requests, by topic=… or request=RequestCode.…")
        if times < 0:
            raise SettingsError(f"fail_next: times {times}: give 0 or more")
        codes = SENDS if request is None else {request}
        self._run(self._plan(frozenset(codes), topic, times, fault, answer))

    def restart(self) -> None:
        """Stop the broker, which closes all connections, and start it again with its store."""
        self._run(self._restart())

    @property
    def grpc_endpoint(self) -> str:
        """``host:port`` for RocketMQ 5 clients, which speak gRPC. Its proxy starts when this is first read.

        Raises MissingExtra; SettingsError without sockets.
        """
        if self._proxy is None:
            self._proxy = self._run(self._start_proxy())
        return self._proxy.address

    @property
    def failures_pending(self) -> int:
        """Number of planned failures that have not happened yet."""
        return self._faults.pending

    @property
    def pulls_held(self) -> int:
        """Number of pulls that wait at the broker for messages."""
        return self._broker.parts.pulls.held_count

    def wait_messages(
        self, topic: str, number: int = 1, *, timeout_s: float = TIMEOUT_S
    ) -> list[StoredMessage]:
        """Wait until a topic has ``number`` messages, and return all of them.

        Raises:
            TimeoutError: it has fewer after ``timeout_s``; the text says how many.
            RuntimeError: called in an event loop: see ``wait_consumed``.
        """
        check(TEXT, topic=topic)
        check(COUNT, number=number)
        check(SECONDS, timeout_s=timeout_s)
        refuse_in_loop("wait_messages")
        return self._run(self._wait_messages(topic, number, timeout_s))

    def wait_consumed(
        self, group: str, topic: str, *, retries: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until a group has handled all messages of a topic, and of its own retry topic.

        Args:
            retries: advance the clock until no message of the group waits for a retry; otherwise a message
                whose handler failed counts as handled while it waits.

        Raises:
            TimeoutError: it has not after ``timeout_s``, or there is no such topic; the text says how far
                it is.
            RuntimeError: called in an event loop, which this would block, and with it the consumers in it;
                use ``await asyncio.to_thread(rocketmq.wait_consumed, group, topic)``.
        """
        check(TEXT, group=group, topic=topic)
        check(FLAG, retries=retries)
        check(SECONDS, timeout_s=timeout_s)
        refuse_in_loop("wait_consumed")
        deadline = time.monotonic() + timeout_s
        self._run(self._wait_consumed(group, topic, timeout_s))
        while retries and self._run(self._awaits_retry(group)):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"messages of group {group} still fail after {timeout_s} s")
            self.clock.advance(LONGEST_DELAY_S)
            self._run(self._wait_consumed(group, topic, timeout_s))

    async def _serve(self, started: "Future[None]") -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._disk.now_ms = self.clock.now_ms
        name_server = NameServer(self._host, port=0, tls=TlsSettings(**self._tls_settings))
        self._routes = name_server.routes
        await name_server.start()
        try:
            self.name_server = name_server.address
            with min_timeout(self.name_server, CLIENTS_WAIT_S):
                await self._start_broker()
                with min_timeout(self._broker.address, CLIENTS_WAIT_S):
                    started.set_result(None)
                    await self._stopping.wait()
                    if self._proxy is not None:
                        await self._proxy.stop()
                    await self._broker.stop()
        finally:
            await name_server.stop()

    async def _start_broker(self, port: int = 0) -> None:
        settings = broker_settings(self._host, port, self.name_server, self._own_settings)
        self._broker = broker = Broker(
            settings, STORE, clock=self.clock, peers_clock=SystemClock(), files=self._disk, load_kernels=False
        )
        await broker.start()
        self._faults.sound = broker.server.handler
        broker.server.handler = self._faults
        broker.server.bulk = None  # it would take sends before they can fail
        await self._known(AUTO_CREATE_TOPIC)

    async def _start_proxy(self) -> "Proxy":
        from cometmq.testing.embedded_proxy import start_proxy  # noqa: PLC0415 few tests need its packages

        settings = TlsSettings(**self._tls_settings)
        return await start_proxy(self._host, self.name_server, settings, self._credentials)

    async def _restart(self) -> None:
        await self._broker.stop()
        await self._start_broker(self._broker.port)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the broker's loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _catch_up(self) -> None:
        """Deliver the delayed messages that are due, and answer the pulls that were held long enough."""
        while self._broker.parts.schedule.deliver():
            pass
        self._broker.look_again()
        self._broker.parts.pulls.expire()

    async def _create_topic(self, topic: str, queues: int, message_type: str = "NORMAL") -> None:
        attributes = {TYPE_ATTRIBUTE: message_type}
        self._broker.parts.topics.put(TopicConfig(topic, queues, queues, attributes=attributes))
        await self._known(topic)

    async def _known(self, topic: str) -> None:
        """Wait until the name server knows a topic."""
        if not await until(lambda: self._routes.route(topic) is not None, TIMEOUT_S):
            raise TimeoutError(f"the name server does not know topic {topic} after {TIMEOUT_S} s")

    async def _send(self, message: Message, queue_id: int | None) -> StoredMessage:
        if self._broker.parts.topics.find(message.topic) is None:
            await self._create_topic(message.topic, QUEUES)
        store = self._broker.store
        receipt = store.append_message(message, self._queue_for(message) if queue_id is None else queue_id)
        begin = receipt.queue_offset
        (stored,) = store.messages(receipt.topic, receipt.queue_id, begin, begin + 1)
        return stored

    def _queue_for(self, message: Message) -> int:
        """Choose a queue as a producer would."""
        topic = self._broker.parts.topics.find(message.topic)
        number = QUEUES if topic is None else topic.write_queue_count
        if message.sharding_key is None:
            return next(self._turn) % number
        queues = [MessageQueue(message.topic, BROKER_NAME, queue_id) for queue_id in range(number)]
        return queue_of_key(queues, message.sharding_key).queue_id

    async def _messages(self, topic: str) -> list[StoredMessage]:
        store = self._broker.store
        found = [
            message
            for name, queue_id in store.queues()
            if name == topic
            for message in store.messages(topic, queue_id)
        ]
        return sorted(found, key=lambda message: message.physical_offset)

    async def _plan(
        self, codes: frozenset[int], topic: str | None, times: int, fault: Fault, answer: int
    ) -> None:
        if fault is Fault.IGNORE and times:
            remove_min_timeout(self._broker.address)
        self._faults.plan(codes, topic, times, fault, answer)

    async def _wait_messages(self, topic: str, number: int, timeout_s: float) -> list[StoredMessage]:
        if not await until(lambda: self._count(topic) >= number, timeout_s):
            raise TimeoutError(f"{topic} has {self._count(topic)} messages after {timeout_s} s, not {number}")
        return await self._messages(topic)

    async def _wait_consumed(self, group: str, topic: str, timeout_s: float) -> None:
        topics = self._broker.parts.topics

        def is_consumed() -> bool:
            return topics.find(topic) is not None and not self._unconsumed(group, topic)

        if await until(is_consumed, timeout_s, self._ask_consumers):
            return
        if topics.find(topic) is None:
            near = get_close_matches(topic, [one.topic for one in topics], 1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise TimeoutError(f"there is no topic {topic} after {timeout_s} s{hint}")
        consumers = self._broker.parts.consumers.find(group)
        members = 0 if consumers is None else len(consumers.members)
        lagging = ", ".join(self._unconsumed(group, topic))
        raise TimeoutError(
            f"group {group}, {members} members, has not handled all after {timeout_s} s: {lagging}"
        )

    async def _awaits_retry(self, group: str) -> bool:
        """Return whether a message of a group waits for a retry."""
        store, given_out = self._broker.store, self._broker.parts.schedule.offsets
        return any(
            message.properties.get(REAL_TOPIC) == RETRY_PREFIX + group
            for name, queue_id in store.queues()
            if name == SCHEDULE_TOPIC
            for message in store.messages(name, queue_id, given_out.get(queue_id + 1, 0))
        )

    def _ask_consumers(self) -> None:
        """Answer all held pulls, since the next pulls of Java clients carry their committed offsets."""
        self._broker.parts.pulls.expire(SUSPEND_MS_MAX)

    def _count(self, topic: str) -> int:
        store = self._broker.store
        return sum(store.max_queue_offset(*queue) for queue in store.queues() if queue[0] == topic)

    def _unconsumed(self, group: str, topic: str) -> list[str]:
        """Return the group's progress in each queue whose end it has not reached, as text."""
        store, offsets = self._broker.store, self._broker.parts.offsets
        lagging = []
        for name, queue_id in store.queues():
            if name in (topic, RETRY_PREFIX + group):
                end, done = store.max_queue_offset(name, queue_id), offsets.committed(group, name, queue_id)
                if (done or 0) < end:
                    lagging.append(f"{name} queue {queue_id}: {done or 0} of {end}")
        return lagging


async def until(
    is_so: Callable[[], bool], timeout_s: float, before_again: Callable[[], object] = lambda: None
) -> bool:
    """Wait until a condition is true; return whether it is."""
    pause_s, pause_s_max = LOOK_AGAIN_S
    try:
        async with asyncio.timeout(timeout_s):
            while not is_so():
                before_again()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, pause_s_max)
    except TimeoutError:
        return is_so()
    return True


def refuse_in_loop(name: str) -> None:
    """Raise RuntimeError if called in an event loop, which the method would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} would block this event loop: await asyncio.to_thread(rocketmq.{name}, …)")


def broker_settings(host: str, port: int, name_server: str, others: Mapping[str, Any]) -> BrokerSettings:
    """Return the settings of a broker at an address, with these others: it has small files."""
    return BrokerSettings.of(
        broker_name=BROKER_NAME,
        bind_address=host,
        listen_port=port,
        namesrv_addr=name_server,
        store_path_root_dir=str(ROOT),
        enable_property_filter=True,
        vip_channel_enable=False,  # a second port that another process may be about to use
        recall_message_enable=True,
        **others,
    )


def user_settings(credentials: Credentials) -> dict[str, Any]:
    """Return the settings of a broker that checks each request, and knows one super user."""
    user = {"username": credentials.access_key, "password": credentials.secret_key}
    return {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": json.dumps(user),
    }


def made_tls(directory: Path) -> tuple[TLS, dict[str, Any]]:
    """Create a certificate; return how clients trust it, and the settings of servers that show it.

    Raises SettingsError: there is no program ``openssl``.
    """
    made = make_certificate(directory)
    settings = {"tls_server_cert_path": str(made.cert), "tls_server_key_path": str(made.key)}
    return TLS(ca_file=made.cert), settings
