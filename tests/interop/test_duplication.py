"""With ``duplicationEnable`` a Java broker's store and ours dispatch the same up to each confirmed offset."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.interop import jvm
from tests.store.conftest import new_message

from cometmq.store import MessageStore, StoreSettings

pytestmark = pytest.mark.interop

RUNS = (
    "ends put put put ends confirm=200 ends confirm=1 ends confirm=0 put ends confirm=0",
    "ends put ends confirm=0 ends put ends",
)
"""What each run of a store does: see ``Confirmed.java``."""


def test_both_dispatch_the_same_up_to_each_confirmed_offset(tmp_path: Path) -> None:
    """Lasts about 15 s: a Java store is opened thrice."""
    for run in RUNS:
        reference = ends_in_java(tmp_path / "java", run)
        assert ends_in_cometmq(tmp_path / "cometmq", run) == reference
        print(f"\n{run}: queues end at {reference}", end="")
    skipped = ends_in_java(tmp_path / "java", "ends")
    assert skipped == [[5, 6]], "a start of Java passes over the first message that was not confirmed"
    assert ends_in_cometmq(tmp_path / "cometmq", "ends") == [[6, 6]]


def ends_in_java(store: Path, run: str) -> list[list[int]]:
    command = jvm.command(
        "Confirmed",
        store,
        *run.split(),
        home=store.parent,
        programs=(jvm.PROGRAMS / "Confirmed.java", jvm.PROGRAMS / "Lines.java"),
        options=(*jvm.SMALL_HEAP, *jvm.QUICK_START, *jvm.BROKER_OPENS),
        properties=jvm.SILENT,
    )
    ended = subprocess.run(
        command, capture_output=True, text=True, env=jvm.environment(store.parent), timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [json.loads(line)["ends"] for line in ended.stdout.splitlines() if line.startswith("{")]


def ends_in_cometmq(directory: Path, run: str) -> list[list[int]]:
    ends = []
    with MessageStore.open(directory, StoreSettings(duplication_enable=True)) as store:
        for step in run.split():
            if step == "put":
                for queue_id in range(2):
                    store.append([new_message("Confirmed", queue_id, tags=None)])
            elif step == "ends":
                ends.append([store.max_queue_offset("Confirmed", queue_id) for queue_id in range(2)])
            else:
                store.confirm(store.written_offset - int(step.removeprefix("confirm=")))
    return ends
