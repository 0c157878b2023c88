"""Timed messages, sent by the real producer to either broker."""

import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.interop import peers
from tests.interop.groups import JUDGED, in_group
from tests.interop.jvm import Run
from tests.interop.patience import TimesTooShort, with_longer_times
from tests.interop.received import each_once

pytestmark = pytest.mark.interop

COUNT = 150
KINDS = 3  # of timed messages, two of which Recall.java takes back
SOON_MS = 3_000
LATER_MS = 12_000
RECALLED_MS = 12_000
"""Time to send all messages and to take some back."""
MUCH_LATER_MS = 45_000
"""Time for a store to move, and for the next broker to start and be asked."""
TOO_SHORT = "the times are too short"  # by Recall.java
RECALLS: dict[str, object] = peers.PATIENT | {"brokerName": "broker-a", "recallMessageEnable": "true"}
"""A handle names the broker: one that goes on with the store of another must have its name."""


def well(count: int) -> list[dict[str, Any]]:
    """Return what is said if all goes well with so many messages."""
    return [each_once("timed", count), {"early": []}]


WELL = well(COUNT)


def test_each_comes_once_and_not_before_its_second(broker: peers.Peer, run_java: Run) -> None:
    assert run_java("Timed", broker.namesrv, "Timed", COUNT, SOON_MS, "all") == WELL


@pytest.mark.parametrize("name", JUDGED)
def test_what_waits_in_stages_comes_once_and_not_before_its_second(
    name: str, run_java: Run, tmp_path: Path
) -> None:
    """Lasts half a minute: the messages are due after 16 s at most, five times as long as a stage."""
    settings = peers.PATIENT | {"timerRollWindowSlot": 3}
    with peers.START[name](tmp_path / "store", settings, ended_by=signal.SIGKILL) as peer:
        assert run_java("Timed", peer.namesrv, "Staged", COUNT, LATER_MS, "all") == WELL


def test_what_the_producer_takes_back_does_not_come(broker: peers.Peer, run_java: Run) -> None:
    assert with_longer_times(partial(recalled, run_java, broker)) == well(COUNT // KINDS)


def recalled(run_java: Run, peer: peers.Peer, factor: int) -> list[dict[str, Any]]:
    """Send timed messages to a topic of their own, and take some back."""
    topic = f"Recalled{factor}"
    return recall(run_java, peer.namesrv, topic, COUNT, RECALLED_MS * factor, "all")


def recall(run_java: Run, *arguments: object) -> list[dict[str, Any]]:
    """Run Recall.java.

    Raises:
        TimesTooShort: a message was due before it was taken back.
    """
    try:
        return run_java("Recall", *arguments)
    except AssertionError as failure:
        if TOO_SHORT in str(failure):
            raise TimesTooShort("messages were due before they were taken back") from failure
        raise


@pytest.mark.parametrize("name", JUDGED)
def test_what_the_producer_takes_back_by_topic_and_id_does_not_come(
    name: str, run_java: Run, tmp_path: Path
) -> None:
    settings = RECALLS | {"appendTopicForTimerDeleteKey": "true"}
    with peers.START[name](tmp_path / "store", settings, ended_by=signal.SIGKILL) as peer:
        assert with_longer_times(partial(recalled, run_java, peer)) == well(COUNT // KINDS)


class Moved(NamedTuple):
    """What was said at the second of two brokers that had the same store, one after the other.

    Attributes:
        ended_by: how the first was ended.
        timed: what is said of the messages that were left with the first, due about when the second starts.
        recalled: the same of those that are due later, two thirds of which were taken back.
    """

    ended_by: signal.Signals
    timed: list[dict[str, Any]]
    recalled: list[dict[str, Any]]


@pytest.fixture(
    scope="module",
    params=[
        in_group(
            (*brokers, ended_by),
            f"{brokers[0]}_first_{ended_by.name}",
            is_long=(brokers[0] == "cometmq") == (ended_by == signal.SIGTERM),
        )
        for brokers in permutations(peers.START)
        for ended_by in (signal.SIGKILL, signal.SIGTERM)
    ],
)
def moved(request: pytest.FixtureRequest, run_java: Run, tmp_path_factory: pytest.TempPathFactory) -> Moved:
    """Leave timed messages with one broker, and let the next give them out.

    Takes a minute: nothing may be due before a Java broker has stopped and the next one has started.
    """
    *brokers, ended_by = request.param
    return with_longer_times(partial(move, brokers, ended_by, run_java, tmp_path_factory.mktemp("moved")))


def move(brokers: Sequence[str], ended_by: signal.Signals, run_java: Run, folder: Path, factor: int) -> Moved:
    """Leave timed messages with one broker, and let the next give them out, by times longer by a factor."""
    port, handles, store = peers.free_port(), "", folder / f"store{factor}"
    names_topic = "true" if ended_by == signal.SIGTERM else "false"
    for name, role in zip(brokers, ("leave", "finish"), strict=True):
        settings = RECALLS
        if name == "rocketmq" or role == "leave":  # CometMQ knows both names, whatever it gives itself
            settings = RECALLS | {"appendTopicForTimerDeleteKey": names_topic}
        with (
            peers.START[name](store, settings, port=port, ended_by=ended_by) as peer,
            ThreadPoolExecutor() as pool,
        ):
            timed = pool.submit(run_java, "Timed", peer.namesrv, "Left", COUNT, LATER_MS, role)
            due_ms = MUCH_LATER_MS * factor
            taken = pool.submit(recall, run_java, peer.namesrv, "Recalled", COUNT, due_ms, role, handles)
            handles = ",".join(taken.result()[0].get("handles", ()))
    return Moved(ended_by, timed.result(), taken.result())


def test_what_is_taken_back_at_one_broker_or_by_its_handle_at_the_next_does_not_come_there(
    moved: Moved,
) -> None:
    assert forgiving(moved.recalled, moved.ended_by) == well(COUNT // KINDS)


def test_the_next_broker_gives_out_what_the_one_before_it_left(moved: Moved) -> None:
    assert forgiving(moved.timed, moved.ended_by) == WELL


def test_a_broker_that_was_killed_gives_out_what_it_had(run_java: Run, tmp_path: Path) -> None:
    port, killed = peers.free_port(), signal.SIGKILL
    for role in ("leave", "finish"):
        with peers.cometmq(tmp_path / "store", peers.PATIENT, port=port, ended_by=killed) as peer:
            verdict = run_java("Timed", peer.namesrv, "Left", COUNT, LATER_MS, role)
    assert forgiving(verdict, killed) == WELL


def forgiving(verdict: list[dict[str, Any]], ended_by: signal.Signals) -> list[dict[str, Any]]:
    """Return what was said, without what came twice after a kill: what came since the last save may."""
    consumer, early = verdict
    return [consumer | {"twice": []} if ended_by == signal.SIGKILL else consumer, early]
