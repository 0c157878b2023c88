import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cometmq.client.idempotence import SqliteClaims, sqlite
from cometmq.client.outcome import PutOff

LEASE_MS = 10

CLAIM_ALL = """
import asyncio, json, sys
from cometmq.client.idempotence import SqliteClaims

async def main():
    store = SqliteClaims(sys.argv[1])
    print(json.dumps([number for number in range(100) if (await store.claim(str(number), 0, 10)).ours]))
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
    with closing(SqliteClaims(path)) as store:
        asyncio.run(store.finish("a", 100))
    with closing(SqliteClaims(path)) as store:
        assert not claimed(store, "a", 99)
        assert claimed(store, "a", 100)


def test_what_expired_is_forgotten_in_the_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sqlite, "FORGET_EVERY", 10)
    with closing(SqliteClaims(tmp_path / "claims.db")) as store:
        for number in range(9):
            claimed(store, str(number), 0)
        claimed(store, "last", LEASE_MS)
        assert rows(tmp_path / "claims.db", "SELECT key FROM cometmq_claims") == [("last",)]


def test_a_transaction_keeps_effect_and_mark_together(tmp_path: Path) -> None:
    path = tmp_path / "claims.db"
    with closing(SqliteClaims(path)) as store:
        with store.transaction("a", 0, 100) as connection:
            connection.execute("CREATE TABLE effects (key TEXT NOT NULL)")
        with pytest.raises(sqlite3.IntegrityError), store.transaction("b", 0, 100) as connection:
            connection.executemany("INSERT INTO effects VALUES (?)", [("b",), (None,)])
        assert rows(path, "SELECT * FROM effects") == []
        assert not claimed(store, "a", 1)
        assert claimed(store, "b", 1)


def test_a_transaction_that_the_user_commits_has_the_mark(tmp_path: Path) -> None:
    with (
        closing(SqliteClaims(tmp_path / "claims.db")) as store,
        store.transaction("a", 0, 100) as connection,
    ):
        connection.commit()
        assert not claimed(store, "a", 1)


def test_of_two_transactions_for_a_key_the_second_is_refused_until_the_first_is_forgotten(
    tmp_path: Path,
) -> None:
    with closing(SqliteClaims(tmp_path / "claims.db")) as store:
        assert claimed(store, "a", 0)
        with store.transaction("a", 1, 100):
            pass
        with pytest.raises(PutOff), store.transaction("a", 99, 200):
            raise AssertionError("the block is not entered")
        with store.transaction("a", 100, 200):
            pass


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    path = tmp_path / "claims.db"
    path.write_bytes(b"something else" * 1_000)
    with pytest.raises(sqlite3.DatabaseError):
        SqliteClaims(path)


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def claimed(store: SqliteClaims, key: str, now_ms: int) -> bool:
    return asyncio.run(store.claim(key, now_ms, LEASE_MS)).ours
