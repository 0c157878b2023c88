"""Prolong the invisible times of messages that push consumers are handling.

A client never learns a renewed handle: it acknowledges by the first one, for which the present one is used.

Source: RocketMQ ``proxy/service/receipt/DefaultReceiptHandleManager.java``.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from cometmq.client.handling.send_back import retry_delay_ms
from cometmq.errors import CometMQError
from cometmq.logs import get_logger
from cometmq.message import StoredMessage
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.messages.receipts import ClientReceipt, parse_client_receipt
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import SETTINGS, ClientKey

LOOK_S: Final = 5.0
"""How often the handles are looked at."""
AHEAD_MS: Final = 10_000
"""A handle is renewed when less than this is left of its time."""
TIMES_MS: Final = tuple(minutes * 60_000 for minutes in (1, 3, 5, 10, 30, 60))
"""The invisible times of the first renewals; the last one is that of all others, too."""
HELD_MS_MAX: Final = 3 * 3_600_000
"""After this a message is given up: it is delivered again after the delay of a retry."""
FAILURES_MAX: Final = 3
RELEASE_MS: Final = 1_000
"""How soon messages of a client that has gone are delivered again."""

_log = get_logger(__name__)


@dataclass
class _Held:
    """A message that a client is handling.

    Attributes:
        receipt: its present handle.
        held_since_ms: by the monotonic clock, as is ``ends_ms``.
        ends_ms: when its present handle ends.
    """

    message: StoredMessage
    receipt: ClientReceipt
    held_since_ms: int
    ends_ms: int
    renewed: int = 0
    failures: int = 0
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Renewals:
    """The messages that clients are handling, and the handles that they got for them.

    Args:
        limits: bound how many they are.
    """

    def __init__(self, brokers: Brokers, limits: ProxySettings = SETTINGS) -> None:
        self._brokers = brokers
        self._limits = limits
        self._clock = brokers.clock
        self._held: defaultdict[tuple[ClientKey, str], dict[str, _Held]] = defaultdict(dict)
        self._count = 0

    def has_room(self, client: ClientKey, group: str) -> bool:
        """Return whether a client may be given further messages of a group to handle."""
        of_owner = len(self._held.get((client, group), ()))
        return (
            of_owner < self._limits.handled_messages_max
            and self._count < self._limits.handled_messages_total_max
        )

    def add(self, client: ClientKey, group: str, message: StoredMessage, receipt: ClientReceipt) -> None:
        """Begin to prolong the invisible time of a message that was delivered to a client with a handle."""
        now_ms = self._clock.monotonic_ms()
        short = replace(message, body=b"", properties={})  # nobody reads them here, and they may be long
        held = _Held(short, receipt, now_ms, now_ms + receipt.handle.invisible_ms)
        of_owner = self._held[client, group]
        self._count -= len(of_owner)
        of_owner[str(receipt)] = held
        self._count += len(of_owner)

    @asynccontextmanager
    async def present(self, client: ClientKey, group: str, text: str) -> AsyncIterator[ClientReceipt]:
        """Provide the present handle for the one that a client has, to end its time or to change it.

        It is not prolonged meanwhile, nor any more once that has succeeded. Raises Failure if it is none, or
        has expired.
        """
        of_owner = self._held.get((client, group), {})
        if (held := of_owner.get(text)) is None:
            yield self._valid(parse_client_receipt(text))
            return
        async with held.changing:  # the broker may be about to replace it
            yield self._valid(held.receipt)
        self._drop(of_owner, text)

    def _valid(self, receipt: ClientReceipt) -> ClientReceipt:
        receipt.check_valid(self._clock.now_ms())
        return receipt

    async def renew(self) -> None:
        """Renew the handles whose time is nearly over."""
        now_ms = self._clock.monotonic_ms()
        due = [
            (owner, text, held)
            for owner, of_owner in self._held.items()
            for text, held in of_owner.items()
            if held.ends_ms - now_ms < AHEAD_MS
        ]
        await asyncio.gather(*(self._renew(*one, now_ms) for one in due))

    def owners(self) -> set[tuple[ClientKey, str]]:
        """Return the clients that are handling messages, each with the group."""
        return set(self._held)

    async def release(self, client: ClientKey, group: str) -> None:
        """Show the messages of a client that has gone to others soon."""
        of_owner = self._held.pop((client, group), {})
        held = list(of_owner.values())
        for text in list(of_owner):
            self._drop(of_owner, text)
        await asyncio.gather(*(self._release(group, one) for one in held))

    def _drop(self, of_owner: dict[str, _Held], text: str) -> None:
        if of_owner.pop(text, None) is not None:
            self._count -= 1

    async def _release(self, group: str, held: _Held) -> None:
        async with held.changing:
            await self._change(group, held, RELEASE_MS)

    async def _renew(self, owner: tuple[ClientKey, str], text: str, held: _Held, now_ms: int) -> None:
        async with held.changing:
            of_owner = self._held.get(owner, {})
            if of_owner.get(text) is not held:
                return  # ended meanwhile
            is_last = now_ms - held.held_since_ms >= HELD_MS_MAX
            invisible_ms = TIMES_MS[min(held.renewed, len(TIMES_MS) - 1)]
            if is_last:
                invisible_ms = retry_delay_ms(held.message, 0)
            is_renewed = await self._change(owner[1], held, invisible_ms)
            if is_last or (not is_renewed and held.failures >= FAILURES_MAX):
                self._drop(of_owner, text)

    async def _change(self, group: str, held: _Held, invisible_ms: int) -> bool:
        """Hide a message for another time; return whether the broker has done that."""
        pops, message = self._brokers.pops(group), held.message
        try:
            handle = await pops.change_invisible(message.topic, held.receipt.handle, invisible_ms)
        except CometMQError as error:
            held.failures += 1
            _log.warning("message %s of group %s is not hidden longer: %s", message.message_id, group, error)
            return False
        held.receipt = held.receipt._replace(handle=handle)
        held.ends_ms = self._clock.monotonic_ms() + invisible_ms
        held.renewed += 1
        held.failures = 0
        return True
