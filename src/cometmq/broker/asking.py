"""Answers that need a client's: the broker asks it, and the loop goes on until it answers or cannot any more.

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
"""How long a client may take to answer."""
WAITING_MAX: Final = 10_000
"""So many answers are waited for at once; more is not asked."""
OPAQUE_MAX: Final = 0x7FFF_FFFF


class NoAnswer(NamedTuple):
    """Why a client has not answered.

    Attributes:
        code: what to tell who wants to know.
        why: goes on from the client's name.
    """

    code: ResponseCode
    why: str


Make = Callable[[Command, Command | NoAnswer], Command]
"""Makes an answer to the first of what a client answered, whatever its code, or of why it has not."""


class _ClientRequest(NamedTuple):
    """A request to a client, and the command that is answered when it is."""

    asker: Session
    command: Command
    make: Make
    timer: asyncio.TimerHandle


class Asking:
    """The requests that clients were asked and have not answered.

    Attributes:
        waiting_count: how many those are.
    """

    def __init__(self) -> None:
        self.waiting_count = 0
        self._opaque = count()
        self._asked: dict[Session, dict[int, _ClientRequest]] = {}

    def ask(self, asker: Session, command: Command, client: Session, request: Command, make: Make) -> None:
        """Ask ``client``, then answer ``command`` of ``asker`` with what ``make`` gives.

        Args:
            command: its body is not kept until then.
            request: its opaque number is set here.

        Raises:
            Refused: too many answers are waited for; nobody was asked.
            ProtocolError: the request is too long to be sent.
        """
        if self.waiting_count >= WAITING_MAX:
            raise Refused(
                ResponseCode.SYSTEM_BUSY, f"{WAITING_MAX} answers of clients are waited for: try again"
            )
        request.opaque = opaque = next(self._opaque) & OPAQUE_MAX
        frame = encode(request)
        timer = asyncio.get_running_loop().call_later(ANSWER_S_MAX, self._expire, client, opaque)
        self._asked.setdefault(client, {})[opaque] = _ClientRequest(
            asker, replace(command, body=b""), make, timer
        )
        self.waiting_count += 1
        client.send(frame)

    def answered(self, client: Session, answer: Command) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        if answer.opaque in self._asked.get(client, ()):
            self._end(client, answer.opaque, answer)

    def closed(self, client: Session) -> None:
        """Tell those who wait for a client that is gone."""
        gone = NoAnswer(ResponseCode.SYSTEM_ERROR, "is gone: it closed its connection")
        for opaque in list(self._asked.get(client, ())):
            self._end(client, opaque, gone)

    def _expire(self, client: Session, opaque: int) -> None:
        late = f"has not answered within {ANSWER_S_MAX:g} s"
        self._end(client, opaque, NoAnswer(ResponseCode.CONSUME_MSG_TIMEOUT, late))

    def _end(self, client: Session, opaque: int, answer: Command | NoAnswer) -> None:
        of_client = self._asked[client]
        asked = of_client.pop(opaque)
        if not of_client:
            del self._asked[client]
        self.waiting_count -= 1
        asked.timer.cancel()
        attempt(asked.asker, (asked.command,), _send, asked, answer)


def _send(asked: _ClientRequest, answer: Command | NoAnswer) -> None:
    if not asked.command.is_oneway:
        asked.asker.send(asked.make(asked.command, answer))
