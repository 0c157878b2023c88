"""The base of all administration: requests to the name servers and brokers of a cluster, and their list."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple, Self, TypeVar

from cometmq.admin.broker_status import number_in, runtime_info_of
from cometmq.client.answer import answers_of, ask_broker, successful
from cometmq.client.credentials import find_credentials
from cometmq.client.routes import Routes
from cometmq.cluster.route import MASTER, Route
from cometmq.errors import NetworkError, NoBroker, NoRoute, NotFound, RemoteError, UnreadableAnswer
from cometmq.net.address import parse_name_servers
from cometmq.net.client import Connections
from cometmq.net.connection import REQUEST_TIMEOUT_MS
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.body import Body, decode
from cometmq.wire.bodies.route import ClusterInfo
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import Header, fields

NOT_FOUND: Final = frozenset(
    (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.QUERY_NOT_FOUND,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.CONSUMER_NOT_ONLINE,
    )
)
"""The response codes with which a server says that something does not exist."""

NO_BROKER: Final = (
    "start a broker with namesrvAddr (or --namesrv) set to this address; if one runs, its log says why "
    "the name server accepts no registration"
)
"""The remedy where a name server knows no broker."""
NO_MASTER: Final = "start its master, or let a controller elect one"
"""The remedy where a broker has slaves and no master."""

BodyT = TypeVar("BodyT", bound=Body)
AnswerT = TypeVar("AnswerT")


STATS_PAUSES_S: Final = (0.5, 1.0)
"""Pauses, in seconds, before a broker is asked again: a Java broker has no statistics in its first second."""


class BrokerLine(NamedTuple):
    """One broker, with its throughput and state.

    Attributes:
        broker_id: 0 for a master.
        in_tps: messages stored per second, over about ten seconds.
        deliveries_per_s: messages delivered per second, each time that one is.
        in_today: messages stored since midnight, in the broker's time zone.
        disk_ratio: used share of its disk, 0 to 1.
        up: its uptime, in words.
        kernels: the bulk operations in use, ``compiled`` or ``plain`` with the reason; None for a Java
            broker.
        cometmq: the version of CometMQ that it runs; None for a Java broker, of which ``version`` says all.
        warning: why it stores no messages, the writes to its disk that fail, and who may use it if that is
            insecure; None if all is well.
        trouble: why the broker did not report its version and the fields after it, which are then None.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    version: str | None = None
    in_tps: float | None = None
    deliveries_per_s: float | None = None
    in_today: int | None = None
    out_today: int | None = None
    disk_ratio: float | None = None
    up: str | None = None
    kernels: str | None = None
    cometmq: str | None = None
    warning: str | None = None
    trouble: str | None = None

    @property
    def is_unreadable(self) -> bool:
        """Whether it answers, but what cannot be read."""
        return self.trouble is not None and UnreadableAnswer.what in self.trouble


class ClusterAdmin:
    """Connections to the name servers and brokers of a cluster, for administration.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
    ) -> None:
        self.tls = tls_of(tls)
        self.name_servers = parse_name_servers(name_servers)
        self.credentials = find_credentials(credentials)

    async def __aenter__(self) -> Self:
        """Prepare the connections, which open at the first request."""
        self.connections = Connections(credentials=self.credentials, tls=self.tls)
        self.routes = Routes(self.connections, self.name_servers)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.connections.close()

    async def topics(self) -> list[str]:
        """Return the names of all topics that the name server knows, sorted. Raises NoBroker."""
        topics = await self.routes.topics()
        if not topics:
            await self.registered()
        return topics

    async def route(self, topic: str) -> Route:
        """Return a topic's route. Raises NoRoute or NetworkError."""
        return await self.routes.get(topic)

    async def info(self) -> ClusterInfo:
        """Return all brokers, and the broker names of each cluster."""
        address, answer = await self.routes.ask_any(RequestCode.GET_BROKER_CLUSTER_INFO)
        with answers_of(address):
            return decode(ClusterInfo, successful(answer).body)

    async def registered(self) -> ClusterInfo:
        """Return the same as ``info``. Raises NoBroker if no broker is registered."""
        info = await self.info()
        if not info.brokers:
            raise NoBroker(f"name server {self.name_servers[0]} knows no broker: {NO_BROKER}")
        return info

    async def masters(self) -> dict[str, str]:
        """Return the masters' addresses by broker name. Raises NoBroker if there are no masters."""
        brokers = (await self.registered()).brokers
        masters = {name: data.addrs[MASTER] for name, data in brokers.items() if MASTER in data.addrs}
        if not masters:
            raise NoBroker(
                f"name server {self.name_servers[0]} knows slaves of broker {min(brokers)}, and no master: "
                f"{NO_MASTER}"
            )
        return masters

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Command:
        """Send a request to one broker; return the response if it is a success.

        Raises RemoteError, or WrongServer if the address is a name server's; NetworkError.
        """
        command = Command(code, ext_fields=fields(header) if header is not None else {}, body=body)
        return await ask_broker(self.connections, address, command, timeout_ms)

    async def ask_masters(
        self, code: RequestCode, header: Header, body_type: type[BodyT]
    ) -> dict[str, BodyT]:
        """Send a request to all masters; return the response bodies by broker name, except "not found".

        Raises RemoteError if a broker refuses for another reason, NetworkError if one does not answer, or
        answers what cannot be read.
        """

        def read(answer: Command) -> BodyT:
            return decode(body_type, answer.body)

        return await self.ask_each(await self.masters(), code, header, read=read, left_out=NOT_FOUND)

    async def ask_each(
        self,
        addresses: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        *,
        read: Callable[[Command], AnswerT],
        left_out: Collection[int] = (),
    ) -> dict[str, AnswerT]:
        """Send a request to some brokers; return what is read from the successful responses, by broker name.

        Args:
            addresses: by broker name.
            read: reads a response; raises FormatError if that is not possible.
            left_out: codes of refusals that are no errors: their brokers are left out.

        Raises as ``ask_masters``.
        """

        async def one(name: str, address: str) -> dict[str, AnswerT]:
            try:
                answer = await self.ask(address, code, header)
            except RemoteError as error:
                if error.code in left_out:
                    return {}
                raise
            with answers_of(address):
                return {name: read(answer)}

        answers = await asyncio.gather(*(one(*broker) for broker in addresses.items()))
        return {name: answer for found in answers for name, answer in found.items()}


async def brokers(cluster: ClusterAdmin) -> list[BrokerLine]:
    """Return all brokers, also those that do not answer. Raises NoBroker, NetworkError as ``registered``."""
    found = [
        (data.cluster, name, broker_id, address)
        for name, data in sorted((await cluster.registered()).brokers.items())
        for broker_id, address in sorted(data.addrs.items())
    ]
    return await asyncio.gather(*(_broker(cluster, *one) for one in found))


async def missing_topic(cluster: ClusterAdmin, topic: str) -> NoRoute:
    """Build the error for a missing topic: the number of topics, the nearest name, and how to create it.

    Without a broker every topic is missing: then the error says that.
    """
    try:
        topics = await cluster.topics()
    except NoBroker as error:
        return error
    server = cluster.name_servers[0]
    remedy = "" if topic.startswith("%") else f"; create it with: cometmq topic create {topic}"
    return NoRoute(
        f"no route for topic {topic!r}: name server {server} knows {len(topics)} topics"
        f"{nearest(topic, topics)}{remedy}",
        topic,
    )


def nearest(name: str, names: list[str]) -> str:
    """Return ", nearest 'NAME'" for the known name most similar to ``name``; empty if none is similar."""
    found = get_close_matches(name, names, 1)
    return f", nearest {found[0]!r}" if found else ""


def missing_group(group: str, groups: list[str]) -> NotFound:
    """Build the error for a missing group: the number of groups, the nearest name, and how to create it."""
    return NotFound(
        f"no group {group!r}: the brokers know {len(groups)} groups{nearest(group, groups)}"
        f"; create it with: cometmq group create {group}"
    )


async def _broker(cluster: ClusterAdmin, *broker: *tuple[str, str, int, str]) -> BrokerLine:
    trouble = ""
    for pause_s in (0.0, *STATS_PAUSES_S):
        await asyncio.sleep(pause_s)
        try:
            info = await runtime_info_of(cluster.connections, broker[-1])
            with answers_of(broker[-1]):
                return _broker_line(*broker, info)
        except RemoteError as error:
            trouble = str(error)
        except NetworkError as error:
            return BrokerLine(*broker, trouble=str(error))
    return BrokerLine(*broker, trouble=trouble)


def _broker_line(cluster: str, name: str, broker_id: int, address: str, info: dict[str, str]) -> BrokerLine:
    return BrokerLine(
        cluster,
        name,
        broker_id,
        address,
        info.get("brokerVersionDesc", ""),
        _rate(info, "putTps"),
        _rate(info, "getTransferredTps"),
        _since(info, "msgPutTotal"),
        _since(info, "msgGetTotal"),
        number_in(info, "commitLogDiskRatio"),
        info.get("runtime", "").strip("[ ]"),
        info.get("kernels"),
        info.get("cometmqVersion"),
        "; ".join(filter(None, map(info.get, ("storeNotWritable", "storeFailedWrites", "insecure")))) or None,
    )


def _rate(info: dict[str, str], key: str) -> float:
    """Return the first of the rates over 10 s, 1 min and 10 min."""
    first, _, _ = info.get(key, "").strip().partition(" ")
    return number_in({key: first}, key)


def _since(info: dict[str, str], key: str) -> int:
    return round(number_in(info, f"{key}TodayNow") - number_in(info, f"{key}TodayMorning"))
