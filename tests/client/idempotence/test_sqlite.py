import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.handling.outcome import PutOff
from cometmq.client.idempotence import SqliteClaims, sqlite
from cometmq.client.idempotence.sqlite import Anchor, anchor_of
from cometmq.io.clock import ManualClock

LEASE_MS = 10

CLAIM_ALL = """
import asyncio, json, sys
from cometmq.client.idempotence import SqliteClaims

async def main():
    store = SqliteClaims(sys.argv[1])
    print(json.dumps([number for number in range(100) if (await store.claim(str(number), 10_000)).ours]))
    store.close()

asyncio.run(main())
"""


def test_processes_that_open_a_new_file_at_once_share_its_keys(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLAIM_ALL, str(tmp_path / "claims.db")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    keys = [number for process in running for number in json.loads(process.communicate()[0])]
    assert sorted(keys) == list(range(100))


def test_marks_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "claims.db"
    clock = ManualClock()
    with closing(SqliteClaims(path, clock=clock)) as store:
        asyncio.run(store.finish("a", 100))
    with closing(SqliteClaims(path, clock=clock)) as store:
        clock.advance(99)
        assert not claimed(store, "a")
        clock.advance(1)
        assert claimed(store, "a")


def test_a_file_of_an_earlier_version_is_used_as_it_is(tmp_path: Path) -> None:
    path, clock = tmp_path / "claims.db", ManualClock()
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in sqlite._SCHEMA[:3]:  # without the clock; its times are the wall clock's
            connection.execute(statement)
        connection.execute("INSERT INTO cometmq_claims VALUES ('a', 1, ?)", (clock.now_ms() + 100,))
    with closing(SqliteClaims(path, clock=clock)) as store:
        clock.advance(99)
        assert not claimed(store, "a")
        clock.advance(1)
        assert claimed(store, "a")


@pytest.mark.parametrize("was_off_ms", [0, 60_000])
def test_after_a_start_of_the_machine_the_wall_clock_tells_how_long_it_was_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_off_ms: int
) -> None:
    path, clock = tmp_path / "claims.db", ManualClock()
    clock.advance(1_000_000)
    with closing(SqliteClaims(path, clock=clock)) as store:
        asyncio.run(store.finish("a", 100_000))
        clock.set_wall(clock.now_ms() - 3_600_000)  # which is then taken note of
        clock.advance(10_000)
    monkeypatch.setattr(sqlite, "boot_id", lambda: "another")
    clock = ManualClock(clock.now_ms() + was_off_ms)
    with closing(SqliteClaims(path, clock=clock)) as store:
        clock.advance(100_000 - 10_000 - was_off_ms - 1)
        assert not claimed(store, "a")
        clock.advance(1)
        assert claimed(store, "a")


def test_a_process_that_is_killed_leaves_an_anchor_of_its_last_thousand_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CLEAN_EVERY", 10)
    path, clock = tmp_path / "claims.db", ManualClock()
    killed = SqliteClaims(path, clock=clock)
    clock.set_wall(clock.now_ms() + 10**9)
    for number in range(10):
        claimed(killed, str(number))
    clock.advance(5)
    (anchor,) = rows(path, "SELECT wall_ms, file_ms FROM cometmq_claims_clock")
    assert anchor == (clock.now_ms() - 5, clock.now_ms() - 5 - 10**9)
    killed.close()


def test_what_expired_is_forgotten_in_the_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sqlite, "CLEAN_EVERY", 10)
    clock = ManualClock()
    with closing(SqliteClaims(tmp_path / "claims.db", clock=clock)) as store:
        for number in range(9):
            claimed(store, str(number))
        clock.advance(LEASE_MS)
        claimed(store, "last")
        assert rows(tmp_path / "claims.db", "SELECT key FROM cometmq_claims") == [("last",)]


def test_a_transaction_keeps_effect_and_mark_together(tmp_path: Path) -> None:
    path = tmp_path / "claims.db"
    with closing(SqliteClaims(path)) as store:
        with store.transaction("a", 100_000) as connection:
            connection.execute("CREATE TABLE effects (key TEXT NOT NULL)")
        with pytest.raises(sqlite3.IntegrityError), store.transaction("b", 100_000) as connection:
            connection.executemany("INSERT INTO effects VALUES (?)", [("b",), (None,)])
        assert rows(path, "SELECT * FROM effects") == []
        assert not claimed(store, "a")
        assert claimed(store, "b")


def test_a_transaction_that_the_user_commits_has_the_mark(tmp_path: Path) -> None:
    with (
        closing(SqliteClaims(tmp_path / "claims.db")) as store,
        store.transaction("a", 100_000) as connection,
    ):
        connection.commit()
        assert not claimed(store, "a")


def test_of_two_transactions_for_a_key_the_second_is_refused_until_the_first_is_forgotten(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    with closing(SqliteClaims(tmp_path / "claims.db", clock=clock)) as store:
        assert claimed(store, "a")
        with store.transaction("a", 100):
            pass
        clock.advance(99)
        with pytest.raises(PutOff), store.transaction("a", 100):
            raise AssertionError("the block is not entered")
        clock.advance(1)
        with store.transaction("a", 100):
            pass


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "claims.db"
    path.write_bytes(b"something else" * 1_000)
    with pytest.raises(
        sqlite3.DatabaseError, match=re.escape(f"file of marks {path}: file is not a database; ")
    ):
        SqliteClaims(path)
    path = tmp_path / "missing" / "claims.db"
    with pytest.raises(sqlite3.OperationalError, match=re.escape(f"file of marks {path}: unable to open")):
        SqliteClaims(path)


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def claimed(store: SqliteClaims, key: str) -> bool:
    return asyncio.run(store.claim(key, LEASE_MS)).ours


WALL_MS = 1_700_000_000_000

STEPS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(-(10**9), 10**9)), max_size=20)
"""How much time passes, and by how much the wall clock is set then."""


def test_it_begins_at_the_wall_clocks_time() -> None:
    assert anchor_of(None, "boot", 5, WALL_MS) == Anchor("boot", 5, WALL_MS, WALL_MS)


@given(STEPS)
def test_while_the_machine_runs_it_goes_by_the_time_that_passes(steps: list[tuple[int, int]]) -> None:
    anchor = first = anchor_of(None, "boot", 5, WALL_MS)
    monotonic_ms, wall_ms = 5, WALL_MS
    for passed_ms, set_by_ms in steps:
        monotonic_ms += passed_ms
        wall_ms += passed_ms + set_by_ms
        anchor = anchor_of(anchor, "boot", monotonic_ms, wall_ms)
        assert anchor.file_ms == WALL_MS + monotonic_ms - 5
        assert anchor_of(first, "boot", monotonic_ms, wall_ms) == anchor, "whichever moment one knows"


def test_across_a_start_of_the_machine_it_goes_by_the_wall_clock_and_never_back() -> None:
    anchor = Anchor("boot", 10**9, WALL_MS, 7_000)
    assert anchor_of(anchor, "next", 3, WALL_MS + 60_000) == Anchor("next", 3, WALL_MS + 60_000, 67_000)
    assert anchor_of(anchor, "next", 3, WALL_MS - 60_000) == Anchor("next", 3, WALL_MS - 60_000, 7_000)


def test_without_a_boot_id_it_goes_by_the_wall_clock() -> None:
    anchor = Anchor("", 5, WALL_MS, 7_000)
    assert anchor_of(anchor, "", 10**9, WALL_MS + 1).file_ms == 7_001
