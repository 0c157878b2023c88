"""Administration that goes on without the brokers that fail: for views that show what the others report."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from cometmq.admin.cluster import AnswerT, ClusterAdmin
from cometmq.admin.topics import TopicAdmin
from cometmq.client.answer import successful
from cometmq.errors import NetworkError, RemoteError
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import Header


class Trouble(NamedTuple):
    """The reason why a broker is missing in a view, or a part of what it has."""

    broker_name: str
    address: str
    text: str


class TolerantAdmin(TopicAdmin):
    """Administration over the connections of another, in which requests to several brokers may fail at some.

    Attributes:
        troubles: the brokers that did not answer, refused or answered what cannot be read, each reason once.
    """

    def __init__(self, cluster: ClusterAdmin) -> None:
        self.tls, self.credentials = cluster.tls, cluster.credentials
        self.name_servers = cluster.name_servers
        self.connections, self.routes = cluster.connections, cluster.routes
        self.troubles: list[Trouble] = []
        self._left_out: frozenset[str] = frozenset()

    async def leave_out_silent_brokers(self) -> None:
        """Leave out of ``masters`` from now on those that do not answer. Raises as ``masters``."""
        masters = await self.masters()
        answers = await self.ask_each(masters, RequestCode.GET_BROKER_RUNTIME_INFO, read=successful)
        self._left_out = frozenset(masters) - frozenset(answers)

    async def masters(self) -> dict[str, str]:
        """Return the masters' addresses by broker name. Raises NoBroker if there are no masters."""
        masters = await super().masters()
        return {name: address for name, address in masters.items() if name not in self._left_out}

    async def ask_each(
        self,
        addresses: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        *,
        read: Callable[[Command], AnswerT],
        left_out: Collection[int] = (),
    ) -> dict[str, AnswerT]:
        """Send a request to some brokers; return what is read from the responses, by broker name."""

        async def one(name: str, address: str) -> dict[str, AnswerT]:
            try:
                return await ask_each({name: address}, code, header, read=read, left_out=left_out)
            except (RemoteError, NetworkError) as error:
                trouble = Trouble(name, address, str(error))
                if trouble not in self.troubles:
                    self.troubles.append(trouble)
                return {}

        ask_each = super().ask_each
        answers = await asyncio.gather(*(one(*item) for item in addresses.items()))
        return {name: answer for found in answers for name, answer in found.items()}
