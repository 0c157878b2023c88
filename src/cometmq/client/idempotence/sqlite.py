"""Marks in an SQLite file, which several processes of a machine may share.

The file is in WAL mode. Single marks are not synced: a kill loses none, a loss of power may lose the last,
whose messages may then be handled again. A transaction with a handler's effects is synced before its message
is acknowledged, so the message is not handled again. The user's tables can be in the file beside these::

    cometmq_claims(key TEXT PRIMARY KEY, state INTEGER, until_ms INTEGER)
    cometmq_claims_clock(id INTEGER PRIMARY KEY, boot_id TEXT, monotonic_ms INTEGER, wall_ms INTEGER,
                         file_ms INTEGER)

Its times are those of the file's clock, which is independent of changes of the wall clock: see
``Anchor``. The second table has one row, the clock's anchor.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.client.handling.outcome import PutOff
from cometmq.cluster.claims import Claimed, ClaimState, Mark, claim, is_done
from cometmq.io.clock import Clock, SystemClock, boot_id

BUSY_TIMEOUT_S: Final = 30.0
"""How long to wait for the transactions of other processes and threads."""
CLEAN_EVERY: Final = 1_000
CLEAN_MAX: Final = 10 * CLEAN_EVERY
"""One of so many claims deletes expired marks, at most CLEAN_MAX to keep the delay short. It also stores a
new anchor of the file's clock, so that the time of a later power-off is measured by the wall clock as it is
set now."""

_SCHEMA: Final = (
    "PRAGMA journal_mode = WAL",
    """
    CREATE TABLE IF NOT EXISTS cometmq_claims
    (key TEXT PRIMARY KEY, state INTEGER NOT NULL, until_ms INTEGER NOT NULL) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS cometmq_claims_until ON cometmq_claims (until_ms)",
    """
    CREATE TABLE IF NOT EXISTS cometmq_claims_clock
    (id INTEGER PRIMARY KEY CHECK (id = 0), boot_id TEXT NOT NULL, monotonic_ms INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL, file_ms INTEGER NOT NULL)
    """,
)
_FIND_ANCHOR: Final = "SELECT boot_id, monotonic_ms, wall_ms, file_ms FROM cometmq_claims_clock"
_PUT_ANCHOR: Final = "INSERT OR REPLACE INTO cometmq_claims_clock VALUES (0, ?, ?, ?, ?)"
_FIND: Final = "SELECT state, until_ms FROM cometmq_claims WHERE key = ?"
_PUT: Final = (
    "INSERT INTO cometmq_claims VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET state = excluded.state, until_ms = excluded.until_ms"
)
_RENEW: Final = "UPDATE cometmq_claims SET until_ms = ? WHERE key = ? AND state = ? AND until_ms = ?"
_RELEASE: Final = "DELETE FROM cometmq_claims WHERE key = ? AND state = ? AND until_ms = ?"
_DELETE_EXPIRED: Final = (
    "DELETE FROM cometmq_claims WHERE key IN (SELECT key FROM cometmq_claims WHERE until_ms <= ? LIMIT ?)"
)


class Anchor(NamedTuple):
    """One moment on three clocks, of which the file's is for all processes that share the file.

    Until the next reboot the monotonic clock, which all processes of the machine share, measures the time
    since the anchor. Across a reboot the wall clock does; it may have been set meanwhile, but the clock of
    the file never goes back. So setting the wall clock neither ends a lease nor extends it. On a system
    without boot ids the wall clock measures always.

    Attributes:
        boot_id: changes at each reboot; empty where the system has none.
        monotonic_ms: the moment on the monotonic clock since that boot.
        wall_ms: the moment on the wall clock.
        file_ms: the moment on the file's clock, which began at the wall clock's time.
    """

    boot_id: str
    monotonic_ms: int
    wall_ms: int
    file_ms: int


def anchor_of(known: Anchor | None, boot_id: str, monotonic_ms: int, wall_ms: int) -> Anchor:
    """Return the anchor of the present moment, computed from an earlier one if there is one."""
    if known is None:
        return Anchor(boot_id, monotonic_ms, wall_ms, wall_ms)
    if boot_id and known.boot_id == boot_id:
        passed_ms = monotonic_ms - known.monotonic_ms
    else:
        passed_ms = wall_ms - known.wall_ms
    return Anchor(boot_id, monotonic_ms, wall_ms, known.file_ms + max(passed_ms, 0))


class SqliteClaims:
    """Keeps marks in a file, which is created if missing.

    Raises:
        sqlite3.Error: the file cannot be used.
    """

    def __init__(self, path: Path | str, *, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._boot_id = boot_id()
        try:
            self._connection = _connect(path, "NORMAL")
            self._prepare()
        except sqlite3.Error as error:  # SQLite's texts name no file
            raise type(error)(f"file of marks {path}: {error}; name one that SQLite can use") from error
        self._thread = ThreadPoolExecutor(1, "cometmq-claims")
        self._turn = threading.Lock()
        self._claims = 0

    def _prepare(self) -> None:
        try:
            for statement in _SCHEMA:
                self._connection.execute(statement)
            with _transaction(self._connection):
                row = self._connection.execute(_FIND_ANCHOR).fetchone()
                self._anchor = self._read_clock(None if row is None else Anchor(*row))
                self._connection.execute(_PUT_ANCHOR, self._anchor)
        except BaseException:
            self._connection.close()
            raise

    async def claim(self, key: str, lease_ms: int) -> Claimed:
        """Claim a key. Raises sqlite3.Error."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._claim, key, lease_ms)

    async def finish(self, key: str, keep_ms: int) -> None:
        """Mark a key as done. Raises sqlite3.Error."""
        await self._run(_PUT, key, ClaimState.DONE, self._now_ms() + keep_ms)

    async def renew(self, key: str, mark: Mark, lease_ms: int) -> Mark | None:
        """Extend a claim, if its mark is still there; return its new mark. Raises sqlite3.Error."""
        renewed = mark._replace(until_ms=self._now_ms() + lease_ms)
        return renewed if await self._run(_RENEW, renewed.until_ms, key, *mark) == 1 else None

    async def release(self, key: str, mark: Mark) -> None:
        """Remove the mark of a claim, if it is still there. Raises sqlite3.Error."""
        await self._run(_RELEASE, key, *mark)

    @contextmanager
    def transaction(self, key: str, keep_ms: int) -> Iterator[sqlite3.Connection]:
        """Begin a transaction that marks a key as done; the mark commits together with the block's writes.

        Raises:
            PutOff: the key is done already.
            sqlite3.Error: the file cannot be used, or other transactions held it for 30 s.
        """
        with (
            self._in_turn(),
            closing(_connect(self._path, "FULL")) as connection,
            _transaction(connection),
        ):
            now_ms = self._now_ms()
            if is_done(_found(connection, key), now_ms):
                raise PutOff(delay_level=1)  # the next delivery finds the mark
            connection.execute(_PUT, (key, ClaimState.DONE, now_ms + keep_ms))
            yield connection

    def close(self) -> None:
        """Wait for the last write, and close the file."""
        self._thread.shutdown()
        with suppress(sqlite3.Error):  # the stored anchor is good enough
            self._connection.execute(_PUT_ANCHOR, self._read_clock(self._anchor))
        self._connection.close()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Queue the threads of this process: SQLite's own wait sleeps longer than most transactions last."""
        if not self._turn.acquire(timeout=BUSY_TIMEOUT_S):
            raise sqlite3.OperationalError(f"{self._path}: others held it for {BUSY_TIMEOUT_S:.0f} s")
        try:
            yield
        finally:
            self._turn.release()

    async def _run(self, statement: str, *values: object) -> int:
        """Execute a statement; return how many rows changed."""
        execute = partial(self._connection.execute, statement, values)
        return (await asyncio.get_running_loop().run_in_executor(self._thread, execute)).rowcount

    def _now_ms(self) -> int:
        return self._read_clock(self._anchor).file_ms

    def _read_clock(self, known: Anchor | None) -> Anchor:
        return anchor_of(known, self._boot_id, self._clock.monotonic_ms(), self._clock.now_ms())

    def _claim(self, key: str, lease_ms: int) -> Claimed:
        self._claims += 1
        with _transaction(self._connection):
            now_ms = self._now_ms()
            if self._claims % CLEAN_EVERY == 0:
                self._connection.execute(_DELETE_EXPIRED, (now_ms, CLEAN_MAX))
                self._connection.execute(_PUT_ANCHOR, self._read_clock(self._anchor))
            claimed = claim(_found(self._connection, key), now_ms, lease_ms)
            if claimed.ours:
                self._connection.execute(_PUT, (key, *claimed.mark))
            return claimed


def _connect(path: Path | str, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Begin as a writer: SQLite may refuse a reader that becomes a writer without waiting."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _found(connection: sqlite3.Connection, key: str) -> Mark | None:
    row = connection.execute(_FIND, (key,)).fetchone()
    return None if row is None else Mark(ClaimState(row[0]), row[1])
