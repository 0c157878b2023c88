"""Whether a broker with users lets requests pass that no user has signed: of all codes, plainly and by TLS.

    python -m tests.campaigns intruders [--requests 20000] [--connections 8] [--seed N]

Intruders send unsigned, forged, truncated and odd requests, and some that they have read on their way and
changed; each must be refused. Meanwhile a client that signs sends messages: the median and the p99 of that
are printed, without intruders and with them. In the end topics, users, acls, offsets and messages must be
what they were, and the broker's memory must not have grown.

What is left out: the same request once more, or with another code. A signature does not cover these, in
RocketMQ's protocol; only TLS does (docs/guide/security.md).
"""

import asyncio
import logging
import random
import signal
import struct
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from tests.access_settings import ADMIN, SECURED
from tests.campaigns.clients.intruders_requests import Intruder, Intrusion, Kind
from tests.campaigns.kit.growth import memory
from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.processes import BrokerProcess
from tests.certificates import Authority

from cometmq import TLS, Message, Producer
from cometmq.errors import ProtocolError
from cometmq.net.connection import Connection
from cometmq.wire.bodies import decode_topic_stats
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, decode, encode

SECRET: Final = "secret"
OWN: Final = "own"
"""The topic of the client that behaves."""
BURST_MAX: Final = 8
PAUSE_S: Final = 0.01
CALM_SENDS: Final = 200
STATE: Final = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.AUTH_LIST_USER,
    RequestCode.AUTH_LIST_ACL,
)
"""The requests whose answers must not change."""
WARM_UP: Final = 0.25
"""The part of the requests after which the broker has what it needs, so that its memory must not grow."""
SHOWN: Final = 150
"""Characters of an answer that are shown before and behind the place where it differs."""
GROWTH_MAX: Final = 8 << 20
"""Bytes by which it may grow all the same: pages of the log, arenas of the heap."""
PATIENCE_S: Final = 60
END_OPAQUE: Final = 0x7FFF_FFFF
_LENGTH: Final = struct.Struct(">i")


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, requests=20_000, connections=8)


def main(options: Namespace) -> list[str]:
    """Run the campaign."""
    logging.disable(logging.WARNING)  # that connections are cut is what this is about
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(Path(directory), options.seed, options.connections)
        outcome = asyncio.run(campaign.run(options.requests))
    print(outcome)
    return outcome.faults


class Unanswered(Enum):
    """What became of a request without an answer."""

    PASSED_OVER = "later ones were answered"
    LOST = "its connection was closed"


class Peer:
    """A connection that is opened again whenever the server has closed it."""

    def __init__(self, host: str, port: int, tls: TLS | None) -> None:
        self._address = (host, port)
        self._context = None if tls is None else tls.context()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def answers(self, frames: Sequence[bytes]) -> list[Command | Unanswered]:
        """Send frames, then one that is refused in any case; return the answers, or why there is none."""
        end = encode(Command(RequestCode.GET_MAX_OFFSET, END_OPAQUE))
        found: dict[int, Command] = {}
        is_whole = True
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await self._opened()
                for frame in frames:
                    is_whole = _is_whole(frame)
                    writer.write(frame)
                    if not is_whole:
                        break  # whatever follows would be the rest of it
                if is_whole:
                    writer.write(end)
                else:
                    writer.write_eof() if writer.can_write_eof() else writer.close()
                while END_OPAQUE not in found:
                    (length,) = _LENGTH.unpack(head := await reader.readexactly(_LENGTH.size))
                    answer = decode(head + await reader.readexactly(length))
                    found[answer.opaque] = answer
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
        missing = Unanswered.PASSED_OVER if END_OPAQUE in found else Unanswered.LOST
        return [found.get(_opaque_of(frame), missing) for frame in frames]

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            host, port = self._address
            self._streams = await asyncio.open_connection(
                host, port, ssl=self._context, server_hostname=host if self._context else None
            )
        return self._streams


def _is_whole(frame: bytes) -> bool:
    return len(frame) > _LENGTH.size and len(frame) == _LENGTH.size + _LENGTH.unpack_from(frame)[0]


def _opaque_of(frame: bytes) -> int:
    """Return a request's opaque number; -1 if it cannot be decoded."""
    try:
        return decode(frame).opaque
    except ProtocolError:
        return -1


@dataclass
class Outcome:
    """What came of a campaign.

    Attributes:
        refused: how many requests were refused, by their kind; those without an answer were passed over.
        closed: how many were answered by a closed connection.
        faults: what should not have happened.
        calm_ms, beset_ms: how long each send of the client took, without intruders and with them.
        grown: bytes that the broker's memory has grown by.
    """

    refused: Counter[Kind] = field(default_factory=Counter)
    closed: Counter[Kind] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    calm_ms: list[float] = field(default_factory=list)
    beset_ms: list[float] = field(default_factory=list)
    grown: int = 0

    def __str__(self) -> str:
        rows = [
            f"{kind.value}: {self.refused[kind]:,} refused, {self.closed[kind]:,} lost their connection"
            for kind in Kind
        ]
        for name, times in (("without intruders", self.calm_ms), ("with them", self.beset_ms)):
            rows.append(
                f"a client's sends {name}: {len(times):,}, median {_quantile(times, 0.5):.2f} ms, "
                f"p99 {_quantile(times, 0.99):.2f} ms"
            )
        rows.append(f"the broker's memory has grown by {self.grown >> 10:,} KiB")
        return "\n".join(rows)


class Campaign:
    """A broker with users, intruders, and a client that behaves."""

    def __init__(self, root: Path, seed: int, connections: int) -> None:
        self._connections = connections
        authority = Authority(root)
        certified = authority.certify()
        self._tls = TLS(ca_file=authority.cert)
        self._broker = BrokerProcess(
            root / "store",
            tls_server_cert_path=str(certified.cert),
            tls_server_key_path=str(certified.key),
            failed_signatures_max=0,  # else most would not be looked at
            unsigned_requests_max=0,  # the same
            transaction_check_interval=3_600_000,  # each check commits offsets of the broker's own
            **SECURED,
        )
        chance = random.Random(seed)
        self._chance = chance
        self._intrusions = Intruder(SECRET, ADMIN, chance).intrusions()
        self._outcome = Outcome()

    async def run(self, count: int) -> Outcome:
        """Send so many requests; return what came of them."""
        await self._broker.start()
        try:
            async with Producer(self._broker.name_server, credentials=ADMIN, tls=self._tls) as client:
                await client.send(Message(SECRET, b"for nobody"))
                await client.send(Message(OWN, b"first"))
                await self._besiege(count, client)
        finally:
            await self._broker.end(signal.SIGTERM)
        return self._outcome

    async def _besiege(self, count: int, client: Producer) -> None:
        outcome = self._outcome
        before = await self._state()
        outcome.calm_ms = [await _send_ms(client) for _ in range(CALM_SENDS)]
        await self._intrude(round(count * WARM_UP))
        begun = memory(self._broker.pid, "RssAnon")
        behaving = asyncio.create_task(self._behave(client))
        await self._intrude(round(count * (1 - WARM_UP)))
        outcome.grown = memory(self._broker.pid, "RssAnon") - begun
        behaving.cancel()
        await asyncio.wait((behaving,))
        if outcome.grown > GROWTH_MAX:
            outcome.faults.append(f"memory has grown by {outcome.grown:,} bytes")
        after = await self._state()
        outcome.faults += [
            f"{request} answered {_around(then, now)} before, and {_around(now, then)} after"
            for request, then, now in zip((*STATE, "messages"), before, after, strict=True)
            if then != now
        ]

    async def _behave(self, client: Producer) -> None:
        while True:
            self._outcome.beset_ms.append(await _send_ms(client))
            await asyncio.sleep(PAUSE_S)

    async def _intrude(self, count: int) -> None:
        """Send so many requests over some connections at once, half of them by TLS."""
        self._left = count
        async with asyncio.TaskGroup() as group:
            for number in range(self._connections):
                tls = self._tls if number % 2 else None
                group.create_task(self._intrude_by(Peer("127.0.0.1", self._broker.port, tls)))

    async def _intrude_by(self, peer: Peer) -> None:
        try:
            while self._left > 0:
                burst = [next(self._intrusions) for _ in range(self._chance.randint(1, BURST_MAX))]
                self._left -= len(burst)
                for again in await self._send(peer, burst):
                    await self._send(peer, [again])
        finally:
            await peer.close()

    async def _send(self, peer: Peer, burst: Sequence[Intrusion]) -> Sequence[Intrusion]:
        """Send requests, and judge their answers; return those whose connection was lost, to send again."""
        answers = await peer.answers([intrusion.frame for intrusion in burst])
        unjudged = []
        for intrusion, answer in zip(burst, answers, strict=True):
            kind = intrusion.kind
            if isinstance(answer, Command):
                if answer.code == ResponseCode.NO_PERMISSION and intrusion.is_answered:
                    self._outcome.refused[kind] += 1
                else:
                    self._outcome.faults.append(f"{intrusion} was answered {answer}")
            elif answer is Unanswered.LOST and len(burst) > 1:
                unjudged.append(intrusion)
            elif answer is Unanswered.LOST:
                self._outcome.closed[kind] += 1
            elif intrusion.is_answered:
                self._outcome.faults.append(f"{intrusion} was not answered")
            else:
                self._outcome.refused[kind] += 1
        return unjudged

    async def _state(self) -> list[object]:
        """Return what no intruder may change: the answers to some requests, and the messages of a topic."""
        connection = await Connection.open(f"127.0.0.1:{self._broker.port}", credentials=ADMIN)
        try:
            found: list[object] = [(await connection.request(Command(code))).body for code in STATE]
            stats = Command(RequestCode.GET_TOPIC_STATS_INFO, ext_fields={"topic": SECRET})
            answer = await connection.request(stats)
            return [*found, decode_topic_stats(answer.body).offsets]  # its rate falls by itself
        finally:
            await connection.close()


async def _send_ms(client: Producer) -> float:
    begun = time.perf_counter()
    await client.send(Message(OWN, b"x"))
    return (time.perf_counter() - begun) * 1000


def _around(answer: object, other: object) -> str:
    """Return the part of an answer where it begins to differ from another one."""
    text = repr(answer)
    differing = (at for at, (one, two) in enumerate(zip(text, repr(other), strict=False)) if one != two)
    at = next(differing, len(text))
    return text[max(at - SHOWN, 0) : at + SHOWN]


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * len(values))] if values else float("nan")
