"""Requests of the broker to a client, whose answer another request waits for.

(RocketMQ: Broker2Client.java, callClient.)
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.broker.refused import Refused
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, encode

ANSWER_S_MAX: Final = 10.0
"""Timeout of a client's answer."""
WAITING_MAX: Final = 10_000
"""Most calls that wait for answers; more are refused."""
OPAQUE_MAX: Final = 0x7FFF_FFFF


class NoAnswer(NamedTuple):
    """The reason why a client has not answered.

    Attributes:
        code: the response code for the requester.
        why: a predicate to the client's name: ``is gone: …``.
    """

    code: ResponseCode
    why: str


Make = Callable[[Command, Command | NoAnswer], Command | None]
"""Builds the response to a command from a client's answer, whatever its code, or from the reason for none.

Returns None if the command waits for the answers of other clients, too.
"""


class _ClientCall(NamedTuple):
    """A call, and the requester's command that waits for its answer."""

    requester: Session
    command: Command
    make: Make
    timer: asyncio.TimerHandle


class ClientCalls:
    """The requests to clients that have not been answered yet.

    Attributes:
        waiting_count: their number.
    """

    def __init__(self) -> None:
        self.waiting_count = 0
        self._opaque = count()
        self._calls: dict[Session, dict[int, _ClientCall]] = {}

    def call(
        self,
        requester: Session,
        command: Command,
        client: Session,
        request: Command,
        make: Make,
        *,
        answer_s_max: float | None = None,
    ) -> None:
        """Send ``request`` to ``client``; answer ``command`` of ``requester`` by ``make`` when that answers.

        Args:
            command: its body is not kept.
            request: its opaque number is set here.
            answer_s_max: the timeout of the answer, if not ``ANSWER_S_MAX``.

        Raises:
            Refused: too many calls wait for answers; nothing was sent.
            ProtocolError: the request is too long to be sent.
        """
        if self.waiting_count >= WAITING_MAX:
            raise Refused(
                ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} requests wait for answers of clients: try again"
            )
        request.opaque = opaque = next(self._opaque) & OPAQUE_MAX
        frame = encode(request)
        wait_s = ANSWER_S_MAX if answer_s_max is None else answer_s_max
        timer = asyncio.get_running_loop().call_later(wait_s, self._expire, client, opaque, wait_s)
        self._calls.setdefault(client, {})[opaque] = _ClientCall(
            requester, replace(command, body=b""), make, timer
        )
        self.waiting_count += 1
        client.send(frame)

    def answered(self, client: Session, answer: Command) -> None:
        """End the call that a client's answer belongs to; a late answer is dropped."""
        if answer.opaque in self._calls.get(client, ()):
            self._end(client, answer.opaque, answer)

    def closed(self, client: Session) -> None:
        """End the calls to a client whose connection is closed."""
        gone = NoAnswer(ResponseCode.SYSTEM_ERROR, "is gone: it closed its connection")
        for opaque in list(self._calls.get(client, ())):
            self._end(client, opaque, gone)

    def _expire(self, client: Session, opaque: int, waited_s: float) -> None:
        late = f"has not answered within {waited_s:g} s"
        self._end(client, opaque, NoAnswer(ResponseCode.CONSUME_MSG_TIMEOUT, late))

    def _end(self, client: Session, opaque: int, answer: Command | NoAnswer) -> None:
        of_client = self._calls[client]
        call = of_client.pop(opaque)
        if not of_client:
            del self._calls[client]
        self.waiting_count -= 1
        call.timer.cancel()
        attempt(call.requester, (call.command,), _answer, call, answer)


def _answer(call: _ClientCall, answer: Command | NoAnswer) -> None:
    if not call.command.is_oneway and (made := call.make(call.command, answer)) is not None:
        call.requester.send(made)
