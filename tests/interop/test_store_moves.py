"""A store directory moves from one broker to another: each finds all that was there, and goes on from it."""

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.interop import peers
from tests.interop.jvm import Run

pytestmark = pytest.mark.interop

KINDS = 4  # of sends
KEYED = 200
GROUPS = ["push-Moved", "pull-Moved"]


class Size(NamedTuple):
    """How many messages are sent by each kind of send, and the sizes of files."""

    messages: int
    settings: dict[str, object]


DEFAULT = Size(600, {})
SMALL = Size(
    600,
    {
        "mappedFileSizeCommitLog": 1 << 18,
        "mappedFileSizeConsumeQueue": 3_000,
        "maxHashSlotNum": 300,
        "maxIndexNum": 1_200,
    },
)
LARGER = Size(
    2_500,
    {
        "mappedFileSizeCommitLog": 1 << 20,
        "mappedFileSizeConsumeQueue": 6_000,
        "maxHashSlotNum": 1_000,
        "maxIndexNum": 4_000,
    },
)
SEALED = Size(SMALL.messages, SMALL.settings | {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"})
SPREAD = Size(SMALL.messages, SMALL.settings | {"storePathCommitLog": "{folder}/b,{folder}/a"})

Line = dict[str, Any]
long = partial(pytest.param, marks=pytest.mark.interop_long)


@pytest.mark.parametrize(
    ("brokers", "size", "ended_by"),
    [
        long("rocketmq rocketmq", LARGER, signal.SIGTERM, id="rocketmq-alone-larger"),
        long("cometmq rocketmq cometmq", LARGER, signal.SIGTERM, id="cometmq-first-larger"),
        long("rocketmq cometmq rocketmq", LARGER, signal.SIGTERM, id="rocketmq-first-larger"),
        long("cometmq rocketmq cometmq", LARGER, signal.SIGKILL, id="cometmq-first-larger-killed"),
        long("cometmq rocketmq cometmq", SPREAD, signal.SIGKILL, id="cometmq-first-spread-killed"),
        long("rocketmq cometmq rocketmq", SMALL, signal.SIGTERM, id="rocketmq-first-small"),
        pytest.param("cometmq rocketmq cometmq", DEFAULT, signal.SIGTERM, id="cometmq-first-default"),
        long("cometmq rocketmq cometmq", SMALL, signal.SIGKILL, id="cometmq-first-killed"),
        pytest.param("rocketmq cometmq", SMALL, signal.SIGKILL, id="rocketmq-first-killed"),
        long("rocketmq cometmq rocketmq", SEALED, signal.SIGTERM, id="rocketmq-first-sealed"),
        pytest.param("cometmq rocketmq cometmq", SEALED, signal.SIGKILL, id="cometmq-first-sealed-killed"),
        pytest.param("rocketmq cometmq rocketmq", SPREAD, signal.SIGTERM, id="rocketmq-first-spread"),
    ],
)
def test_each_broker_finds_what_the_one_before_it_left(
    brokers: str, size: Size, ended_by: signal.Signals, run_java: Run, tmp_path: Path
) -> None:
    """Lasts up to a minute: each broker gives out every message twice, and Java's needs 10 s to stop.

    What runs only in ``make interop-long``, and why, is in ``docs/internals/tests.md``.
    """
    port = peers.free_port()  # the same for all: an offset message id names the broker's address
    digest: dict[tuple[str, int, int], Line] = {}
    committed: list[Line] = []
    sent: list[Line] = []
    for hop, name in enumerate(brokers.split()):
        named = {name: str(value).format(folder=tmp_path) for name, value in size.settings.items()}
        settings = named | peers.PATIENT
        with peers.START[name](tmp_path / "store", settings, port=port, ended_by=ended_by) as peer:
            if hop == 0:
                told, *_ = run_java("SendAndReceive", peer.namesrv, "Moved", size.messages)
                sent_count, answered_count = KINDS * size.messages, (KINDS - 1) * size.messages
                assert told == {"sent": sent_count, "answered": answered_count, "failed": []}
            else:
                assert read_all(run_java, peer) == digest
                assert answers_right(run_java, peer, sent, tmp_path)
                if ended_by == signal.SIGTERM:  # offsets are saved now and then: a kill may lose the latest
                    assert committed_offsets(run_java, peer) == committed
            sent += run_java("SendKeyed", peer.namesrv, "Keyed", f"hop{hop}", KEYED)
            before, digest = digest, read_all(run_java, peer)
            assert len(digest) == KINDS * size.messages + len(sent)
            assert before.items() <= digest.items()
            assert answers_right(run_java, peer, sent, tmp_path)
            committed = committed_offsets(run_java, peer)
            print(f"\n{name}: {len(before)} messages found, {len(digest)} left", end="")
    if size is SPREAD:
        assert directories_take_turns(tmp_path, size)


def directories_take_turns(folder: Path, size: Size) -> bool:
    """Each file of the log, whoever created it, is in the directory whose turn it was."""
    length = int(str(size.settings["mappedFileSizeCommitLog"]))
    places = {int(path.name) // length: path.parent.name for path in folder.glob("[ab]/*")}
    assert places == {number: "ab"[number % 2] for number in range(len(places))}
    assert len(places) > 2
    return not (folder / "store/commitlog").exists()


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
