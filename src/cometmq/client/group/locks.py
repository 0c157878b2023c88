"""Asking brokers for the locks of ordered queues, and giving them back."""

import asyncio
import logging
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from cometmq.client.answer import successful
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError, FormatError
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.locks import LockRequest, LockResponse
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

_log = logging.getLogger(__name__)


class Locked(NamedTuple):
    """What brokers said about locks: which were ``asked`` for and decided, and which of these we have."""

    asked: list[MessageQueue]
    granted: list[MessageQueue]


class Locks:
    """The locks of one member of a group."""

    def __init__(self, connections: Connections, routes: Routes, group: str, client_id: str) -> None:
        self._connections = connections
        self._routes = routes
        self._group = group
        self._client_id = client_id

    async def lock(self, queues: Iterable[MessageQueue]) -> Locked:
        """Ask for locks, or for more time; a broker that gives no answer of use has decided nothing."""
        decided = Locked([], [])
        for wanted, answer in await self._ask(RequestCode.LOCK_BATCH_MQ, queues):
            try:
                granted = decode(LockResponse, answer.body).queues
            except FormatError as error:
                _log.warning("the locks at broker %s are not decided: %s", wanted[0].broker_name, error)
                continue
            decided.asked.extend(wanted)
            decided.granted.extend(granted)
        return decided

    async def unlock(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Give locks back; give those of which a broker has heard it: the others it lets expire."""
        answered = await self._ask(RequestCode.UNLOCK_BATCH_MQ, queues)
        return [queue for heard, _ in answered for queue in heard]

    async def _ask(
        self, code: RequestCode, queues: Iterable[MessageQueue]
    ) -> list[tuple[list[MessageQueue], Command]]:
        by_broker = attrgetter("broker_name")
        groups = [list(group) for _, group in groupby(sorted(queues, key=by_broker), key=by_broker)]
        answers = await asyncio.gather(*(self._ask_broker(code, group) for group in groups))
        return [(group, answer) for group, answer in zip(groups, answers, strict=True) if answer is not None]

    async def _ask_broker(self, code: RequestCode, queues: list[MessageQueue]) -> Command | None:
        body = encode(LockRequest(self._client_id, self._group, queues))
        try:
            address = await self._routes.master(queues[0])
            command = Command(code, ext_fields={}, body=body)
            return successful(await self._connections.request(address, command))
        except CometMQError as error:
            _log.warning("the locks at broker %s are not decided: %s", queues[0].broker_name, error)
            return None
