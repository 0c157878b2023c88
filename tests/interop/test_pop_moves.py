"""A store moves from one broker to another while messages are popped: each comes again at its time."""

import asyncio
import re
import signal
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.interop import peers
from tests.interop.jvm import Run
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
LATE_MS_MAX = 25_000
"""How much later than its time a message may come: its broker may have to start, and reads round by round."""


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
    """Takes as long as its times are: before the first, Java's broker has stopped and the next has started.

    At the first broker all are popped; a quarter is acknowledged, and a quarter changed. At the second,
    before any is due, an eighth each is acknowledged and changed by the first one's handles. The last quarter
    comes there, and half of it is acknowledged. All that is left comes at the third. A kill waits until
    offsets are saved if Java's broker is next: CometMQ finds those of both in the log.
    """
    first, second, third = brokers.split()
    port, group = peers.free_port(), Group(run_java, TOPIC, GROUP, tmp_path)
    popped, eighth = group.popped, size.messages // 8

    def broker(name: str) -> AbstractContextManager[peers.Peer]:
        return peers.START[name](tmp_path / "store", SETTINGS, port=port, ended_by=ended_by)

    with broker(first) as peer:
        run_java("CreateTopic", peer.namesrv, peer.broker, QUEUES, TOPIC)
        keys = [line["key"] for line in run_java("Send", peer.namesrv, TOPIC, "moved", size.messages)]
        assert sorted(group.pop(peer, size.messages, size.soon_ms, size.soon_ms)) == sorted(keys)
        group.ack(peer, keys[: 2 * eighth])
        group.change(peer, keys[2 * eighth : 4 * eighth], size.later_ms)
        if ended_by == signal.SIGKILL and second == "rocketmq":
            await_saved_offsets(peer, TOPIC, size.messages)

    with broker(second) as peer:
        assert group.pop(peer, size.messages, size.soon_ms, WATCHED_MS) == [], "the times are too short"
        group.ack(peer, keys[4 * eighth : 5 * eighth])
        group.change(peer, keys[5 * eighth : 6 * eighth], size.later_ms)
        due = keys[6 * eighth :]
        assert now_ms() < min(popped.handles[key].due_ms for key in due), "the times are too short"
        assert sorted(group.pop(peer, len(due), AGAIN_MS, wait_ms(group, due))) == sorted(due)
        group.ack(peer, due[:eighth])
        if ended_by == signal.SIGKILL and third == "rocketmq":
            await_saved_offsets(peer, RETRY_TOPIC, len(due))

    with broker(third) as peer:
        left = list(popped.handles)
        assert len(left) == 4 * eighth
        assert sorted(group.pop(peer, len(left), size.later_ms, wait_ms(group, left))) == sorted(left)
        group.ack(peer, left)
        assert group.pop(peer, size.messages, AGAIN_MS, WATCHED_MS) == []
    assert popped.early == []
    assert popped.again == []
    assert popped.latest_ms <= LATE_MS_MAX
    print(f"\n{brokers}: {size.messages} messages, the latest {popped.latest_ms} ms late", end="")


def wait_ms(group: Group, keys: list[str]) -> int:
    """Return how long to wait for messages that are popped, to be sure."""
    return max(group.popped.handles[key].due_ms for key in keys) + LATE_MS_MAX - now_ms()


def await_saved_offsets(peer: peers.Peer, topic: str, count: int) -> None:
    """Wait until a broker has saved that so many messages were popped."""
    table = peer.store / "config" / "consumerOffset.json"
    are_saved = until(lambda: saved_offsets(table.read_text() if table.exists() else "", topic) >= count)
    assert asyncio.run(are_saved), "the offsets are not saved"


def saved_offsets(table: str, topic: str) -> int:
    """Return the sum of the group's offsets in a topic: Java writes numbers as keys, which is no JSON."""
    group = re.search(rf'"{re.escape(topic)}@{GROUP}"\s*:\s*{{([^}}]*)}}', table)
    return sum(map(int, re.findall(r":\s*(\d+)", group[1]))) if group else 0
