from pathlib import Path

from tests.broker.conftest import serving
from tests.replication.conftest import acked, pair, until
from tests.store.conftest import new_message

from cometmq.broker.metrics import families
from cometmq.broker.metrics.storage import STORAGE, add_replication, add_timer, read_store
from cometmq.broker.reads import read
from cometmq.io.files import Disk
from cometmq.metrics.family import Values


async def test_the_store_shows_its_bytes_and_the_age_of_its_oldest_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        values = Values()
        await read(bench.store, read_store(values, bench.store, Disk()))
        assert values.series[families.SIZE] == {STORAGE: 0} and families.RESERVE_MS not in values.series

        await bench.send("T")
        bench.clock.advance(5_000)
        values = Values()
        await read(bench.store, read_store(values, bench.store, Disk()))
        assert values.series[families.SIZE] == {STORAGE: bench.store.written_offset}
        assert values.series[families.RESERVE_MS] == {STORAGE: 5_000}
        assert values.series[families.WRITABLE] == {(): 1}
        used, usable = Disk().usage(tmp_path)
        shown = sum(values.series[families.DISK].values())
        assert abs(shown - used - usable) < 0.01 * shown  # others use the disk meanwhile


async def test_a_slave_is_behind_by_bytes_and_seconds_until_it_has_all(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, _, _):

        def shown() -> dict[str, list[float]]:
            values = Values()
            add_replication(values, master.parts.replication)
            parts = families.SLAVES, families.SLAVE_BEHIND, families.SLAVE_BEHIND_S
            return {family.name: list(values.series[family].values()) for family in parts}

        await until(lambda: acked(master) == master.store.written_offset)
        level = {
            "cometmq_replication_slaves": [1, 1],
            "cometmq_replication_behind_bytes": [0],
            "cometmq_replication_behind_seconds": [0],
        }
        assert shown() == level
        master.store.append([new_message("T")])  # nothing of it is sent before the loop's next turn
        assert shown()["cometmq_replication_behind_bytes"][0] > 0
        assert shown()["cometmq_replication_behind_seconds"][0] > 0
        await until(lambda: shown() == level)
        assert follower.store.written_offset == master.store.written_offset


async def test_a_timed_message_waits_and_is_late_when_nobody_delivers_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        due_ms = bench.clock.now_ms() + 60_000
        await bench.send("T", TIMER_DELIVER_MS=str(due_ms))

        def shown() -> tuple[float, ...]:
            values = Values()
            add_timer(values, bench.parts.timed_messages, bench.clock.now_ms())
            parts = families.TIMER_BEHIND, families.TIMER_WAITING, families.TIMER_LATE_MS
            return tuple(values.series[family][STORAGE] for family in parts)

        await bench.parts.timed_messages.load()
        assert shown() == (1, 0, 0)
        await bench.parts.timed_messages.round()
        assert shown() == (0, 1, 0)
        bench.clock.advance(70_000)
        late = shown()
        assert late[:2] == (0, 1) and 8_000 <= late[2] <= 10_000
