"""What is known of a group's popped messages, and what must be so of each one that comes."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.jvm import Run
from tests.interop.patience import PATIENCE_S, TimesTooShort
from tests.interop.peers import BROKER_NAME, Peer

Line = dict[str, Any]
LOOK_AGAIN_S = 0.5


class Handle(NamedTuple):
    """What the handle of a popped message says, as far as tests need it."""

    text: str
    due_ms: int

    @classmethod
    def parse(cls, text: str) -> "Handle":
        """Read a handle: its second part is when the message was popped, its third for how long."""
        _, popped_ms, invisible_ms, *_ = text.split(" ")
        return cls(text, int(popped_ms) + int(invisible_ms))


class Popped:
    """The messages of a group, by key, and how they were handled.

    Attributes:
        handles: of those that are neither acknowledged nor came again, the latest handle.
        acknowledged: those that the broker said are.
        came: how often each has come.
        early: each that came before its time, with by how many ms.
        again: those that came after they had been acknowledged.
        revived: of those that came again, when they were due, and when a broker stored them for that.
    """

    def __init__(self) -> None:
        self.handles: dict[str, Handle] = {}
        self.acknowledged: set[str] = set()
        self.came: dict[str, int] = {}
        self.early: list[tuple[str, int]] = []
        self.again: list[str] = []
        self.revived: list[tuple[int, int]] = []

    def take(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Record the messages that ``Pop.java`` printed."""
        for line in lines:
            key, at_ms = line["key"], line["at"]
            assert line["intact"], f"{key} is not what was sent"
            if key in self.acknowledged:
                self.again.append(key)
            elif key in self.handles:
                due_ms = self.handles[key].due_ms
                self.revived.append((due_ms, line["stored"]))
                if at_ms < due_ms:
                    self.early.append((key, due_ms - at_ms))
            self.came[key] = self.came.get(key, 0) + 1
            self.handles[key] = Handle.parse(line["handle"])

    def ack(self, key: str) -> None:
        """Record that the broker said that a message is acknowledged."""
        self.acknowledged.add(key)
        del self.handles[key]

    def change(self, key: str, handle: str) -> None:
        """Record the handle that the broker gave for a message that is to be invisible for longer."""
        self.handles[key] = Handle.parse(handle)


class Group:
    """A consumer group that pops a topic with the Java client.

    Attributes:
        popped: what is known of its messages.
    """

    def __init__(self, run_java: Run, topic: str, group: str, folder: Path) -> None:
        self.popped = Popped()
        self._run_java = run_java
        self._names = (topic, group)
        self._orders = folder / "orders.jsonl"

    def pop(self, peer: Peer, count: int, invisible_ms: int, wait_ms: int) -> list[str]:
        """Pop until so many messages came or the time is over; return their keys."""
        timeout_s = wait_ms / 1000 + PATIENCE_S
        lines = self._run("Pop", peer, count, invisible_ms, wait_ms, timeout_s=timeout_s)
        self.popped.take(lines)
        return [line["key"] for line in lines]

    def pop_all(self, peer: Peer, keys: Sequence[str], invisible_ms: int) -> None:
        """Pop until each of these has come, whenever that is; others may come, too, if it is their time."""
        missing = set(keys)
        while missing:
            dues_ms = [self.popped.handles[key].due_ms for key in missing if key in self.popped.handles]
            wait_ms = max([now_ms(), *dues_ms]) + PATIENCE_S * 1000 - now_ms()
            came = self.pop(peer, len(missing), invisible_ms, wait_ms)
            assert came, f"{sorted(missing)} do not come"
            missing.difference_update(came)

    def ack(self, peer: Peer, keys: Sequence[str]) -> None:
        """Acknowledge messages."""
        self._settle(peer, keys, {})
        for key in keys:
            self.popped.ack(key)

    def change(self, peer: Peer, keys: Sequence[str], invisible_ms: int) -> None:
        """Change how long messages are invisible from now on."""
        answers = self._settle(peer, keys, {"invisibleMs": invisible_ms})
        for key, answer in zip(keys, answers, strict=True):
            self.popped.change(key, answer["handle"])

    def must_be_invisible(self, keys: Sequence[str]) -> None:
        """Check that none of these is due yet.

        Raises:
            TimesTooShort: one is, so that it may come again whatever was done with it.
        """
        over_ms = now_ms() - min(self.popped.handles[key].due_ms for key in keys)
        if over_ms >= 0:
            raise TimesTooShort(f"a message has been due for {over_ms} ms")

    def _settle(self, peer: Peer, keys: Sequence[str], order: Mapping[str, object]) -> list[Line]:
        orders = [dict(order) | {"handle": self.popped.handles[key].text} for key in keys]
        self._orders.write_text("".join(json.dumps(each) + "\n" for each in orders))
        answers = self._run("Settle", peer, self._orders)
        self.must_be_invisible(keys)
        assert [answer["status"] for answer in answers] == ["OK"] * len(keys)
        return answers

    def _run(self, program: str, peer: Peer, *arguments: object, timeout_s: float = PATIENCE_S) -> list[Line]:
        return self._run_java(
            program, BROKER_NAME, peer.broker, *self._names, *arguments, timeout_s=timeout_s
        )


def now_ms() -> int:
    """Return the time as handles have it."""
    return int(time.time() * 1000)


async def until(is_so: Callable[[], bool]) -> bool:
    """Look again and again until it is so, since files of others tell nobody; return False if it never is."""
    for _ in range(int(PATIENCE_S / LOOK_AGAIN_S)):
        if is_so():
            return True
        await asyncio.sleep(LOOK_AGAIN_S)
    return False
