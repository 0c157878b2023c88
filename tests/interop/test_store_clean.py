"""A store that was cleaned while it was closed is one that a Java broker serves: it begins later."""

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.jvm import Run

from cometmq.store import settings as store_settings
from cometmq.store.offline.clean import clean

pytestmark = pytest.mark.interop

COUNT = 3_000
SIZES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 19,
    "mappedFileSizeConsumeQueue": 6_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}

Messages = dict[tuple[int, int], dict[str, Any]]


@pytest.mark.parametrize("first", ["cometmq", pytest.param("rocketmq", marks=pytest.mark.interop_long)])
def test_brokers_serve_what_is_left_of_a_store_that_was_cleaned(
    first: str, run_java: Run, tmp_path: Path
) -> None:
    """Lasts half a minute: three brokers serve the store in turn, and each of Java's needs 10 s to stop."""
    port = peers.free_port()  # the same for all: an offset message id names the broker's address
    store = tmp_path / "store"
    with start(first, store, port) as peer:
        run_java("SendKeyed", peer.namesrv, "Keyed", "kept", COUNT)
        _, before = read_all(run_java, peer)
    cleaned = clean(store, store_settings.from_properties(SIZES), older_than_ms=0)
    assert cleaned.commit_log and cleaned.queue_files and cleaned.index_files
    print(f"\n{first}: {[len(files) for files in cleaned[:3]]} files removed", end="")
    for name in ("rocketmq", "cometmq"):
        with start(name, store, port) as peer:
            begins, left = read_all(run_java, peer)
        assert 0 < len(left) < len(before)
        assert left.items() <= before.items()
        assert left.keys() == {(queue, offset) for queue, offset in before if offset >= begins[queue]}
        print(f"\n{name}: {len(left)} of {len(before)} messages left, queues begin at {begins}", end="")


def start(name: str, store: Path, port: int) -> Any:
    settings = SIZES | peers.PATIENT
    return peers.START[name](store, settings, port=port, ended_by=signal.SIGTERM)


def read_all(run_java: Run, peer: peers.Peer) -> tuple[dict[int, int], Messages]:
    """Return where each queue begins, and all messages by queue and offset."""
    lines = run_java("ReadAll", peer.namesrv, "Keyed")
    begins = {line["queueId"]: line["min"] for line in lines if "max" in line}
    return begins, {(line["queueId"], line["queueOffset"]): line for line in lines if "keys" in line}
