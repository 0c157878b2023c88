"""The other workers of a proxy that is several processes on one port: they ask each other by unix sockets.

All calls of a connection reach one worker, but a client may come back by another connection. Two things are
known only to the worker that it was connected to before: the newest handles of the messages that this one
prolongs, and whether it takes the client for gone::

    client ─► worker 1: AckMessage by the first handle, "… 0" ─► worker 0: ends the message by the newest one
    worker 0: has not heard a client for two minutes ─► worker 1: does, so its messages stay hidden

So what ends a message is passed on to the worker that its handle names, no worker forgets a client that
another one hears, and all forget one that says that it leaves.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cometmq.errors import NetworkError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.calling import RpcCaller
from cometmq.proxy.messages.receipts import parse_client_receipt
from cometmq.proxy.transport import ClientKey, GrpcServer, Rpc


class WorkerPlace(NamedTuple):
    """Which of a proxy's workers a process is.

    Attributes:
        folder: where the workers have their sockets; no other user may enter it.
        number: its number, from 0.
        total: how many there are.
    """

    folder: Path
    number: int
    total: int

    def socket_of(self, number: int) -> Path:
        """Return the path of a worker's socket."""
        return self.folder / str(number)


class FellowWorkers:
    """The other workers: none before ``start``, and none if there is one process only."""

    def __init__(self) -> None:
        self._callers: dict[int, RpcCaller] = {}
        self._server: GrpcServer | None = None
        self._number: int | None = None

    @property
    def own_number(self) -> int | None:
        """The number of this worker; None if it has no fellows."""
        return self._number

    async def start(self, place: WorkerPlace, rpcs: Mapping[str, Rpc]) -> None:
        """Serve the others with these rpcs, and know how to call them. Raises OSError if it cannot."""
        self._number = place.number
        self._callers = {
            number: RpcCaller(place.socket_of(number))
            for number in range(place.total)
            if number != place.number
        }
        self._server = GrpcServer(rpcs)
        await self._server.start_at(place.socket_of(place.number))

    async def close(self) -> None:
        """Serve them no more."""
        for caller in self._callers.values():
            caller.close()
        if self._server is not None:
            await self._server.stop()

    def holder_of(self, receipt: str) -> RpcCaller | None:
        """Return the other worker that prolongs the message of a handle, if one does. Raises Failure."""
        number = parse_client_receipt(receipt).worker
        return None if number is None else self._callers.get(number)

    async def hear(self, client: ClientKey) -> bool:
        """Return whether another worker hears a client, or does not answer and so may do it."""
        beat = pb.HeartbeatRequest()
        answers = await self._ask_all("Heartbeat", beat, client)
        return any(answer is None or answer.status.code == pb.OK for answer in answers)

    async def tell_end(self, client: ClientKey) -> bool:
        """Announce to the others that a client leaves; return whether one of them knew it."""
        end = pb.NotifyClientTerminationRequest()
        answers = await self._ask_all("NotifyClientTermination", end, client)
        return any(answer is not None and answer.status.code == pb.OK for answer in answers)

    async def _ask_all(self, name: str, request: Any, client: ClientKey) -> list[Any]:
        """Return the answers of all others; None for one that does not answer."""

        async def ask(caller: RpcCaller) -> Any:
            try:
                return await caller.call(name, request, client)
            except NetworkError:
                return None

        return await asyncio.gather(*map(ask, self._callers.values()))
