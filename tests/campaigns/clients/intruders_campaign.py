"""Intruders and a client that behaves, at a broker with users in a process of its own."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.access_settings import ADMIN, SECURED
from tests.campaigns.clients.intruders_peer import Peer, Unanswered
from tests.campaigns.clients.intruders_requests import Intruder, Intrusion, Kind
from tests.campaigns.kit.growth import memory
from tests.campaigns.kit.processes import BrokerProcess
from tests.certificates import Authority

from cometmq import TLS, Message, Producer
from cometmq.net.connection import Connection
from cometmq.wire.bodies import decode_topic_stats
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

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
