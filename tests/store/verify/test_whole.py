"""A store as a whole: sound, killed, damaged."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message
from tests.store.verify.conftest import (
    ABORT,
    FIRST_LOG,
    MESSAGES,
    checked,
    damages,
    flip,
    last_log,
    overwrite,
)

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.store.files.finding import Severity
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk


def test_a_closed_store_is_sound(sound: MemoryDisk) -> None:
    verified = checked(sound)
    assert (verified.state, verified.findings, verified.messages) == (State.SOUND, [], MESSAGES)
    assert (verified.queues, verified.index_entries) == (3, 210)


def test_an_empty_store_is_sound(open_store: OpenStore, disk: MemoryDisk) -> None:
    open_store().close()
    assert checked(disk).state is State.SOUND


@pytest.mark.parametrize("name", ["store-clean", "store-killed", "store-killed-recovered"])
def test_the_stores_of_a_real_broker_are_not_damaged(golden: Mapping[str, Path], name: str) -> None:
    """Among them one of a killed broker, and one that was recovered: its index holds some records twice."""
    verified = verify(golden[name])
    assert verified.state is (State.NEEDS_RECOVERY if name == "store-killed" else State.SOUND)
    assert [finding.path.name for finding in verified.findings] == ["abort"] * (name == "store-killed")


def test_a_store_killed_at_any_time_needs_recovery_and_is_not_damaged(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(MESSAGES):
        store.append([new_message(queue_id=n % 3, body=b"%03d" % n * 30, tags="paid", keys=f"k{n}")])
        clock.advance(5_000)
        if n % 7 == 0:
            store.tick()
        if n % 5 == 0:
            verified = checked(disk.after_kill())
            assert verified.state is State.NEEDS_RECOVERY, verified.findings
            assert verified.messages == n + 1


def test_a_store_that_lost_power_is_not_damaged_and_its_next_start_makes_it_sound(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(MESSAGES):
        store.append([new_message(queue_id=n % 3, body=b"%03d" % n * 30, tags="paid", keys=f"k{n}")])
        clock.advance(5_000)
        if n % 4 == 0:
            store.sync_files(store.tick())
        if n % 9 == 0:
            store.wait_flushed().result()
            clock.advance(1_000)
            store.tick()
        if n % 5 == 0:
            state = disk.after_power_loss()
            assert checked(state).state is State.NEEDS_RECOVERY
            open_store(files=state).close()
            assert checked(state.after_kill()).state is State.SOUND


def test_what_recovery_makes_of_a_killed_store_is_sound(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(MESSAGES):
        store.append([new_message(body=b"%03d" % n * 30, keys=f"k{n}")])
        if n == 30:
            clock.advance(1_000)
            store.tick()  # makes the checkpoint
    state = disk.after_kill()
    state.put(ABORT, b"1")  # as of another run of the machine
    overwrite(state, layout.commitlog_path(ROOT, 8_192), 300, bytes(9))
    assert checked(state).state is State.NEEDS_RECOVERY
    open_store(files=state).close()
    assert checked(state.after_kill()).state is State.SOUND


def test_a_torn_tail_is_damage_in_a_closed_store_only(sound: MemoryDisk) -> None:
    last = last_log(sound)
    data = sound.load(last)
    cut = len(data.rstrip(b"\0")) - 40
    overwrite(sound, last, cut, bytes(40))
    assert checked(sound).state is State.DAMAGED
    sound.put(ABORT, b"1")
    overwrite(sound, layout.checkpoint_path(ROOT), 0, (1_700_000_000_000).to_bytes(8, "big"))
    verified = checked(sound)
    assert verified.state is State.NEEDS_RECOVERY
    assert "torn tail" in str([finding for finding in verified.findings if finding.path == last])


def test_what_the_checkpoint_vouches_for_is_no_torn_tail(sound: MemoryDisk) -> None:
    last = last_log(sound)
    flip(sound, last, len(sound.load(last).rstrip(b"\0")) - 40)  # properties
    flip(sound, last, len(sound.load(last).rstrip(b"\0")) - 100)  # body
    sound.put(ABORT, b"1")
    assert checked(sound).state is State.DAMAGED


DERIVED_USED = st.tuples(st.sampled_from(["queue", "index"]), st.integers(0, 10**6), st.integers(0, 7))


@given(DERIVED_USED)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_flipped_bit_in_a_queue_or_a_full_index_file_is_found_where_it_is(
    sound: MemoryDisk, flipped: tuple[str, int, int]
) -> None:
    """All but those that nothing reads: entry 0 of an index file, the time difference of its entry 1."""
    kind, number, bit = flipped
    if kind == "queue":
        path = layout.consume_queue_path(ROOT, "Orders", number % 3, 0)
        position = number % SMALL.queue_file_size
    else:
        path = layout.index_dir(ROOT) / sound.names(layout.index_dir(ROOT))[0]
        position = number % len(sound.load(path))
        if 80 <= position < 100 or 112 <= position < 116:
            return
    flip(sound, path, position, bit)
    verified = checked(sound)
    flip(sound, path, position, bit)
    assert verified.state is State.DAMAGED
    assert path in {finding.path for finding in damages(verified)}


@given(st.integers(0, 8_191), st.integers(0, 7))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_flipped_bit_in_the_log_stops_the_check(sound: MemoryDisk, position: int, bit: int) -> None:
    flip(sound, FIRST_LOG, position, bit)
    verified = checked(sound)
    flip(sound, FIRST_LOG, position, bit)
    assert verified.messages >= MESSAGES - 1


def test_progress_ends_at_all_of_the_log(sound: MemoryDisk) -> None:
    steps: list[tuple[int, int]] = []
    verified = verify(ROOT, SMALL, layer=sound, progress=lambda *step: steps.append(step))
    assert steps[-1][0] == verified.bytes <= steps[-1][1]


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no commitlog/"):
        verify(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="is a file"):
        verify(tmp_path / "file")


def test_a_note_is_no_damage(sound: MemoryDisk) -> None:
    sound.remove(layout.checkpoint_path(ROOT))
    verified = checked(sound)
    assert verified.state is State.SOUND
    assert [finding.severity for finding in verified.findings] == [Severity.NOTE]
