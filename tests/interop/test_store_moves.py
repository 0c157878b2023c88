"""A store directory moves from one broker to another: each finds all that was there, and goes on from it."""

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

COUNT = 2_500  # by each of four kinds of send
KEYED = 200
GROUPS = ["push-Moved", "pull-Moved"]

DEFAULT_SIZES: dict[str, object] = {}
SMALL_SIZES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 6_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}

SEALED: dict[str, object] = SMALL_SIZES | {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}

Line = dict[str, Any]
long = partial(pytest.param, marks=pytest.mark.interop_long)


@pytest.mark.parametrize(
    ("brokers", "sizes", "ended_by"),
    [
        long("rocketmq rocketmq", SMALL_SIZES, signal.SIGTERM, id="rocketmq-alone-small"),
        long("cometmq rocketmq cometmq", SMALL_SIZES, signal.SIGTERM, id="cometmq-first-small"),
        pytest.param("rocketmq cometmq rocketmq", SMALL_SIZES, signal.SIGTERM, id="rocketmq-first-small"),
        pytest.param("cometmq rocketmq cometmq", DEFAULT_SIZES, signal.SIGTERM, id="cometmq-first-default"),
        pytest.param("cometmq rocketmq cometmq", SMALL_SIZES, signal.SIGKILL, id="cometmq-first-killed"),
        pytest.param("rocketmq cometmq", SMALL_SIZES, signal.SIGKILL, id="rocketmq-first-killed"),
        pytest.param("rocketmq cometmq rocketmq", SEALED, signal.SIGTERM, id="rocketmq-first-sealed"),
        pytest.param("cometmq rocketmq cometmq", SEALED, signal.SIGKILL, id="cometmq-first-sealed-killed"),
    ],
)
def test_each_broker_finds_what_the_one_before_it_left(
    brokers: str, sizes: dict[str, object], ended_by: signal.Signals, run_java: Run, tmp_path: Path
) -> None:
    """Takes up to a minute: each broker gives out every message twice, and Java's needs 10 s to stop.

    What runs only in ``make interop-long``, and why, is in ``ARCHITECTURE.md``.
    """
    port = peers.free_port()  # the same for all: an offset message id names the broker's address
    digest: dict[tuple[str, int, int], Line] = {}
    committed: list[Line] = []
    sent: list[Line] = []
    for hop, name in enumerate(brokers.split()):
        settings = sizes | peers.PATIENT
        with peers.START[name](tmp_path / "store", settings, port=port, ended_by=ended_by) as peer:
            if hop == 0:
                told, *_ = run_java("SendAndReceive", peer.namesrv, "Moved", COUNT)
                assert told == {"sent": 4 * COUNT, "answered": 3 * COUNT, "failed": []}
            else:
                assert read_all(run_java, peer) == digest
                assert answers_right(run_java, peer, sent, tmp_path)
                if ended_by == signal.SIGTERM:  # offsets are saved now and then: a kill may lose the latest
                    assert committed_offsets(run_java, peer) == committed
            sent += run_java("SendKeyed", peer.namesrv, "Keyed", f"hop{hop}", KEYED)
            before, digest = digest, read_all(run_java, peer)
            assert len(digest) == 4 * COUNT + len(sent)
            assert before.items() <= digest.items()
            assert answers_right(run_java, peer, sent, tmp_path)
            committed = committed_offsets(run_java, peer)
            print(f"\n{name}: {len(before)} messages found, {len(digest)} left", end="")


def read_all(run_java: Run, peer: peers.Peer) -> dict[tuple[str, int, int], Line]:
    lines = run_java("ReadAll", peer.namesrv, "Moved", "Keyed")
    queues = [line for line in lines if "max" in line]
    messages = {
        (line["topic"], line["queueId"], line["queueOffset"]): line for line in lines if "keys" in line
    }
    assert messages.keys() == {
        (line["topic"], line["queueId"], offset)
        for line in queues
        for offset in range(line["min"], line["max"])
    }
    return messages


def answers_right(run_java: Run, peer: peers.Peer, sent: list[Line], folder: Path) -> bool:
    lines = folder / "sent.jsonl"
    lines.write_text("\n".join(map(json.dumps, sent)))
    found = run_java("Query", peer.namesrv, lines)[0]
    assert found == {"asked": len(sent), "wrong": []}
    return True


def committed_offsets(run_java: Run, peer: peers.Peer) -> list[Line]:
    return run_java("CommittedOffsets", peer.namesrv, "Moved", *GROUPS)
