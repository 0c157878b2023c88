"""Pops, acknowledgements and changes of invisible times, by their names on the wire.

The names and numbers are written out: a model must not believe what the broker's own tables say.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from tests.broker.conftest import BROKER, Bench, serving

from cometmq.broker.requests.pop.handed_out import restore_offsets
from cometmq.format import properties, record
from cometmq.store.append import Appended, NewMessage
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.frame import Command

NO_MESSAGE = 208
"""The answer to a handle whose message waits no more."""

ROOT = Path("/disk/store")
TOPIC = "T"
QUEUES = 4
REVIVE_QUEUES = 8
STEPS = 50
POP_MESSAGE, ACK_MESSAGE, CHANGE_INVISIBLE_TIME = 200050, 200051, 200053
FOUND, NOT_FOUND = 0, 210
ALL_QUEUES = -1
COUNT_MAX = 32
ROUND_MS = 500


def limits() -> settings:
    """Return a third of the examples that other tests make: each has many steps."""
    examples = settings.default.max_examples if settings.default is not None else 100
    return settings(max_examples=max(examples // 3, 1), deadline=None)


class Got(NamedTuple):
    """A message as a client has got it, with its handle."""

    body: bytes
    tries: int
    handle: str

    @property
    def parts(self) -> list[str]:
        """Begin, time of the pop, invisible time, revive queue, kind of topic, broker, queue and offset."""
        return self.handle.split(" ")

    @property
    def due_ms(self) -> int:
        """When it may come again."""
        return int(self.parts[1]) + int(self.parts[2])

    @property
    def queue(self) -> tuple[int, int]:
        """Its queue and its offset there."""
        return int(self.parts[6]), int(self.parts[7])


class Group:
    """A group that pops the topic."""

    def __init__(self, bench: Bench, name: str, *, is_ordered: bool = False) -> None:
        self._bench = bench
        self._name = name
        self._is_ordered = is_ordered

    async def pop(self, invisible_ms: int, count: int = COUNT_MAX, queue_id: int = ALL_QUEUES) -> list[Got]:
        """Pop what is there; the handles are made as RocketMQ's client makes them."""
        answer = await self._ask(
            POP_MESSAGE,
            queueId=queue_id,
            maxMsgNums=count,
            invisibleTime=invisible_ms,
            pollTime=0,
            bornTime=0,
            initMode=0,
            order=str(self._is_ordered).lower(),
        )
        if answer.code == NOT_FOUND:
            return []
        assert answer.code == FOUND, answer
        said = answer.ext_fields
        begins = dict(part.rsplit(" ", 1) for part in said["startOffsetInfo"].split(";"))
        tries = dict(part.rsplit(" ", 1) for part in said.get("orderCountInfo", "").split(";") if part)
        found = []
        for message in record.decode_many(answer.body):
            assert message.topic == TOPIC
            queue_id, offset = message.queue_id, message.queue_offset
            handle = properties.decode(message.properties).get("POP_CK") or (
                f"{begins[f'0 {queue_id}']} {said['popTime']} {invisible_ms} {said['reviveQid']} 0 {BROKER} "
                f"{queue_id} {offset}"
            )
            counted = tries.get(
                f"0 qo{queue_id}%{offset}", tries.get(f"0 {queue_id}", message.reconsume_times)
            )
            found.append(Got(message.body, int(counted), handle))
        return found

    async def ack(self, got: Got) -> int:
        """Acknowledge a message; return the code of the answer."""
        return (await self._settle(ACK_MESSAGE, got)).code

    async def change(self, got: Got, invisible_ms: int) -> Got:
        """Change how long a message is invisible from now on; return it with its new handle.

        If it waits no more it is returned as it was.
        """
        answer = await self._settle(CHANGE_INVISIBLE_TIME, got, invisibleTime=invisible_ms)
        if answer.code == NO_MESSAGE:
            return got
        assert answer.code == FOUND, answer
        said, parts = answer.ext_fields, got.parts
        changed = [parts[-1], said["popTime"], said["invisibleTime"], said["reviveQid"], *parts[4:]]
        return got._replace(handle=" ".join(changed))

    async def _settle(self, code: int, got: Got, **more: object) -> Command:
        _, _, _, _, kind, _, queue_id, offset = got.parts
        topic = TOPIC if kind == "0" else f"%RETRY%{self._name}_{TOPIC}"
        return await self._ask(
            code, topic=topic, queueId=queue_id, offset=offset, extraInfo=got.handle, **more
        )

    async def _ask(self, code: int, **named: object) -> Command:
        texts = {name: str(value) for name, value in named.items()}
        fields = {"consumerGroup": self._name, "topic": TOPIC} | texts
        return await self._bench.connection.request(Command(code, ext_fields=fields))


@asynccontextmanager
async def broker(disk: MemoryDisk, passed_ms: int, saved_ms: int = 0) -> AsyncIterator[Bench]:
    """Serve what is on a disk, at a time.

    Args:
        saved_ms: when offsets were saved last, by the broker's clock.
    """
    async with serving(ROOT, files=disk, bulk=True, passed_ms=passed_ms) as bench:
        parts, store = bench.parts, bench.store
        await parts.timed_messages.load()
        if not store.recovered.clean:
            queues = parts.revive.topic, REVIVE_QUEUES
            await restore_offsets(store, parts.offsets, parts.groups, *queues, saved_ms)
        yield bench


async def pass_time(bench: Bench, ms: int) -> None:
    """Advance the time, and run what is due at the broker, again and again, as its alarms would."""
    for _ in range(0, ms, ROUND_MS):
        bench.clock.advance(ROUND_MS)
        while bench.parts.timed_messages.wait_ms() == 0:
            await bench.parts.timed_messages.round()
        await bench.parts.revive.round()


async def die(bench: Bench, disk: MemoryDisk, ms: int, stored: int) -> MemoryDisk:
    """Advance the time; return the disk as a kill left it when so many messages had been stored meanwhile."""
    dead, append = list[MemoryDisk](), bench.store.append

    def append_one_by_one(messages: Sequence[NewMessage]) -> list[Appended]:
        nonlocal stored
        appended = []
        for message in messages:
            if stored == 0:
                dead.append(disk.after_kill())
            stored -= 1
            appended += append([message])
        return appended

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bench.store, "append", append_one_by_one)
        await pass_time(bench, ms)
    return dead[0] if dead else disk.after_kill()


async def save_timer(bench: Bench) -> None:
    """Save how far the timer is, as a broker does now and then."""
    await asyncio.wrap_future(bench.store.wait_flushed())
    await bench.parts.timed_messages.save()
