"""Lock and unlock ordered queues at their brokers."""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from cometmq.client.answer import successful
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError, FormatError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.locks import LockRequest, LockResponse
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

_log = get_logger(__name__)


class LockDecisions(NamedTuple):
    """The queues whose brokers responded to a lock request, and those of them that are locked for us."""

    decided: list[MessageQueue]
    granted: list[MessageQueue]


class Locks:
    """Requests the locks of one member of a group."""

    def __init__(self, connections: Connections, routes: Routes, group: str, client_id: str) -> None:
        self._connections = connections
        self._routes = routes
        self._group = group
        self._client_id = client_id

    async def lock(self, queues: Iterable[MessageQueue]) -> LockDecisions:
        """Lock queues or renew their locks; a broker without a valid response has decided nothing."""
        decisions = LockDecisions([], [])
        for requested, answer in await self._request(RequestCode.LOCK_BATCH_MQ, queues):
            try:
                granted = decode(LockResponse, answer.body).queues
            except FormatError as error:
                _log.warning("the locks at broker %s are not decided: %s", requested[0].broker_name, error)
                continue
            decisions.decided.extend(requested)
            decisions.granted.extend(granted)
        return decisions

    async def unlock(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Unlock queues; return those whose broker confirmed: the other locks expire by themselves."""
        confirmed = await self._request(RequestCode.UNLOCK_BATCH_MQ, queues)
        return [queue for requested, _ in confirmed for queue in requested]

    async def _request(
        self, code: RequestCode, queues: Iterable[MessageQueue]
    ) -> list[tuple[list[MessageQueue], Command]]:
        """Send each broker a request for its queues; return queues and responses of the successful ones."""
        by_broker = attrgetter("broker_name")
        groups = [list(group) for _, group in groupby(sorted(queues, key=by_broker), key=by_broker)]
        answers = await asyncio.gather(*(self._request_broker(code, group) for group in groups))
        return [(group, answer) for group, answer in zip(groups, answers, strict=True) if answer is not None]

    async def _request_broker(self, code: RequestCode, queues: list[MessageQueue]) -> Command | None:
        body = encode(LockRequest(self._client_id, self._group, queues))
        try:
            address = await self._routes.master(queues[0])
            command = Command(code, ext_fields={}, body=body)
            return successful(await self._connections.request(address, command))
        except CometMQError as error:
            _log.warning("the locks at broker %s are not decided: %s", queues[0].broker_name, error)
            return None
