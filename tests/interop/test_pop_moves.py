"""A store moves from one broker to another while messages are popped: each comes again at its time."""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.interop import peers
from tests.interop.jvm import Run
from tests.interop.patience import TimesTooShort, with_longer_times
from tests.interop.popping import Group, now_ms, until

pytestmark = pytest.mark.interop

TOPIC = "PopMoves"
GROUP = "pop-moves"
RETRY_TOPIC = f"%RETRY%{GROUP}_{TOPIC}"
QUEUES = 4
SETTINGS = peers.PATIENT | {"brokerName": peers.BROKER_NAME}
WATCHED_MS = 4_000
"""How long a broker is watched to hand out nothing."""
AGAIN_MS = 20_000
"""When comes again what the second broker hands out."""
NEVER_MS = 3_600_000
"""Invisible for so long is what the third broker hands out: it is acknowledged, however long that takes."""
LATE_MS_MAX = 25_000
"""After its time, and after its own start, CometMQ may store a message again so late: it reads by rounds."""


class Size(NamedTuple):
    """How many messages there are, and when those that the first broker hands out or changes come again."""

    messages: int
    soon_ms: int
    later_ms: int


SHORT = Size(32, 50_000, 60_000)
LONG = Size(1_000, 60_000, 120_000)
long = partial(pytest.param, marks=pytest.mark.interop_long)


@pytest.mark.parametrize(
    ("brokers", "size", "ended_by"),
    [
        pytest.param("rocketmq cometmq rocketmq", SHORT, signal.SIGTERM, id="rocketmq-first"),
        long("rocketmq cometmq rocketmq", LONG, signal.SIGTERM, id="rocketmq-first-1000"),
        long("rocketmq cometmq rocketmq", LONG, signal.SIGKILL, id="rocketmq-first-1000-killed"),
        long("cometmq rocketmq cometmq", LONG, signal.SIGTERM, id="cometmq-first-1000"),
        long("cometmq rocketmq cometmq", LONG, signal.SIGKILL, id="cometmq-first-1000-killed"),
        long("rocketmq rocketmq rocketmq", LONG, signal.SIGTERM, id="rocketmq-alone-1000"),
        long("rocketmq rocketmq rocketmq", LONG, signal.SIGKILL, id="rocketmq-alone-1000-killed"),
    ],
)
def test_what_is_popped_comes_again_at_its_time_wherever_the_store_is_then(
    brokers: str, size: Size, ended_by: signal.Signals, run_java: Run, tmp_path: Path
) -> None:
    """Lasts as long as its times are: before the first, Java's broker has stopped and the next has started.

    Nothing comes before its time or after it was acknowledged, and all else comes. How late is judged only of
    CometMQ, by when it stored a message again: not of Java's broker, and not by when a client had it.
    """
    with_longer_times(partial(move, brokers, size, ended_by, run_java, tmp_path))


def move(
    brokers: str, size: Size, ended_by: signal.Signals, run_java: Run, tmp_path: Path, factor: int
) -> None:
    """Move a store from broker to broker; times are longer by a factor.

    At the first broker all are popped; a quarter is acknowledged, and a quarter changed. At the second,
    before any is due, an eighth each is acknowledged and changed by the first one's handles. The last quarter
    comes there, and half of it is acknowledged. All that is left comes at the third. A kill waits until
    offsets are saved if Java's broker is next: CometMQ finds those of both in the log.
    """
    first, second, third = brokers.split()
    folder = tmp_path / f"{factor}"
    folder.mkdir()
    port, group = peers.free_port(), Group(run_java, TOPIC, GROUP, folder)
    popped, eighth = group.popped, size.messages // 8
    soon_ms, later_ms = size.soon_ms * factor, size.later_ms * factor
    late_ms: list[int] = []

    @contextmanager
    def broker(name: str) -> Iterator[peers.Peer]:
        with peers.START[name](folder / "store", SETTINGS, port=port, ended_by=ended_by) as peer:
            started_ms, before = now_ms(), len(popped.revived)
            yield peer
        if name == "cometmq":
            late_ms.extend(stored - max(due, started_ms) for due, stored in popped.revived[before:])

    with broker(first) as peer:
        run_java("CreateTopic", peer.namesrv, peer.broker, QUEUES, TOPIC)
        keys = [line["key"] for line in run_java("Send", peer.namesrv, TOPIC, "moved", size.messages)]
        group.pop_all(peer, keys, soon_ms)
        group.ack(peer, keys[: 2 * eighth])
        group.change(peer, keys[2 * eighth : 4 * eighth], later_ms)
        group.must_be_invisible(keys[4 * eighth :])
        if ended_by == signal.SIGKILL and second == "rocketmq":
            await_saved_offsets(peer, TOPIC, size.messages)

    with broker(second) as peer:
        due = keys[6 * eighth :]
        came = group.pop(peer, size.messages, soon_ms, WATCHED_MS)
        assert (popped.early, popped.again) == ([], [])
        if came:
            raise TimesTooShort(f"{len(came)} messages were due when the second broker had started")
        group.ack(peer, keys[4 * eighth : 5 * eighth])
        group.change(peer, keys[5 * eighth : 6 * eighth], later_ms)
        group.must_be_invisible(due)
        group.pop_all(peer, due, AGAIN_MS * factor)
        group.ack(peer, due[:eighth])
        if ended_by == signal.SIGKILL and third == "rocketmq":
            await_saved_offsets(peer, RETRY_TOPIC, len(due))

    with broker(third) as peer:
        left = list(popped.handles)
        assert len(left) == 4 * eighth
        group.pop_all(peer, left, NEVER_MS)
        group.ack(peer, left)
        assert group.pop(peer, size.messages, AGAIN_MS, WATCHED_MS) == []
    assert popped.early == []
    assert popped.again == []
    assert len(late_ms) >= (len(due) if second == "cometmq" else 0)
    latest_ms = max(late_ms, default=0)
    assert latest_ms <= LATE_MS_MAX
    print(f"\n{brokers}: {size.messages} messages, CometMQ's {latest_ms} ms late at most", end="")


def await_saved_offsets(peer: peers.Peer, topic: str, count: int) -> None:
    """Wait until a broker has saved that so many messages were popped."""
    table = peer.store / "config" / "consumerOffset.json"
    are_saved = until(lambda: saved_offsets(table.read_text() if table.exists() else "", topic) >= count)
    assert asyncio.run(are_saved), "the offsets are not saved"


def saved_offsets(table: str, topic: str) -> int:
    """Return the sum of the group's offsets in a topic: Java writes numbers as keys, which is no JSON."""
    group = re.search(rf'"{re.escape(topic)}@{GROUP}"\s*:\s*{{([^}}]*)}}', table)
    return sum(map(int, re.findall(r":\s*(\d+)", group[1]))) if group else 0
