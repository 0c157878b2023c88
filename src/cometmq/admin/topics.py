"""Making, changing and listing topics."""

from typing import NamedTuple, Self

from cometmq.client.routes import Routes, parse_name_servers
from cometmq.cluster.route import MASTER, Route
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.format.layout import valid_topic
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.route import ClusterInfo
from cometmq.wire.bodies.topic import TopicNames
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import CreateTopicHeader, DeleteTopicInNamesrvHeader, Header, TopicHeader, fields

DEFAULT_TOPIC = "TBW102"
READ_AND_WRITE = 6


class TopicLine(NamedTuple):
    """One topic on one broker."""

    topic: str
    broker_name: str
    read_queues: int
    write_queues: int
    perm: int


class TopicAdmin:
    """Works on the topics of a cluster.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
    """

    def __init__(self, name_servers: str) -> None:
        self._addresses = parse_name_servers(name_servers)

    async def __aenter__(self) -> Self:
        """Get ready to ask."""
        self._connections = Connections()
        self._routes = Routes(self._connections, self._addresses)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._connections.close()

    async def create(self, topic: str, *, queues: int = 8, perm: int = READ_AND_WRITE) -> list[str]:
        """Make a topic on every master, or change it there; gives the brokers' names.

        Raises:
            IllegalName: the topic's name.
            NoRoute: the name server knows no broker.
            RemoteError: a broker refuses.
            NetworkError: somebody does not answer.
        """
        header = CreateTopicHeader(
            topic=valid_topic(topic),
            default_topic=DEFAULT_TOPIC,
            read_queue_count=queues,
            write_queue_count=queues,
            perm=perm,
            filter_type="SINGLE_TAG",
        )
        masters = await self._masters()
        for address in masters.values():
            await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        self._routes.forget(topic)
        return sorted(masters)

    async def delete(self, topic: str) -> list[str]:
        """Remove a topic from every master and name server; gives the brokers.

        Raises like ``create``; NoRoute also if no broker has the topic.
        """
        await self._routes.get(valid_topic(topic))  # a broker calls the removal of nothing a success
        masters = await self._masters()
        for address in masters.values():
            await self.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))
        for address in self._addresses:
            await self.ask(
                address, RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader(topic=topic)
            )
        self._routes.forget(topic)
        return sorted(masters)

    async def names(self) -> list[str]:
        """Give the names of all topics that the name server knows, sorted."""
        answer = await self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(decode(TopicNames, answer.body).topics)

    async def route(self, topic: str) -> Route:
        """Give a topic's route. Raises NoRoute or NetworkError."""
        return await self._routes.get(topic)

    async def lines(self) -> list[TopicLine]:
        """Give all topics, a line for each broker that has them."""
        found: list[TopicLine] = []
        for name in await self.names():
            try:
                route = await self._routes.get(name)
            except NoRoute:
                continue  # it was deleted in between
            found += [
                TopicLine(name, counts.broker_name, counts.read_count, counts.write_count, counts.perm)
                for counts in route.queues
            ]
        return found

    async def ask(self, address: str, code: RequestCode, header: Header | None = None) -> Command:
        """Ask one server; gives its answer if that is a success. Raises RemoteError or NetworkError."""
        command = Command(code, ext_fields=fields(header) if header is not None else {})
        answer = await self._connections.request(address, command)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.code, answer.remark or "")
        return answer

    async def _masters(self) -> dict[str, str]:
        answer = await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        brokers = decode(ClusterInfo, answer.body).brokers
        masters = {name: data.addrs[MASTER] for name, data in brokers.items() if MASTER in data.addrs}
        if not masters:
            raise NoRoute(f"name server {self._addresses[0]} knows no broker: start one, or check --namesrv")
        return masters

    async def _ask_name_server(self, code: RequestCode) -> Command:
        failures = []
        for address in self._addresses:
            try:
                return await self.ask(address, code)
            except NetworkError as error:
                failures.append(str(error))
        raise NetworkError(f"no name server answers: {'; '.join(failures)}")
