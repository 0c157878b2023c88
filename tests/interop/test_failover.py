"""Failover by RocketMQ's own controller: each product takes over from the other, and nothing is lost.

The campaign ``failover`` does it many times.
"""

import asyncio
import time
from pathlib import Path

import pytest
from tests.campaigns.kit.lanes import Lanes
from tests.campaigns.sets.failover import NAME, PACE_S, TOPIC, kill_master, pair
from tests.interop.jvm import Run
from tests.interop.patience import wait_until
from tests.store.conftest import new_message

from cometmq.format import layout
from cometmq.replication.epochs import decode_epochs
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

pytestmark = pytest.mark.interop

COUNT = 4


async def test_each_product_takes_over_from_the_other_and_nothing_is_lost(tmp_path: Path) -> None:
    """Lasts some 40 s, most of which Java brokers take to start, and to copy a topic."""
    async with pair(tmp_path, ("cometmq", "rocketmq"), COUNT) as brokers:
        pauses_s = []
        async with Lanes(brokers.namesrv, NAME, TOPIC, COUNT, pace_s=PACE_S) as lanes:
            for _ in brokers.kinds:
                master = await brokers.until_both_in_sync()
                await lanes.acknowledgement_begun_after(time.monotonic())
                pauses_s.append(await kill_master(brokers, lanes, master))
                await brokers.start(master)
            await brokers.until_both_in_sync()
        verdict = await lanes.judge()
        print(f"\n{verdict}, taken over after {', '.join(f'{pause:.2f} s' for pause in pauses_s)}")
        assert verdict.acknowledged and verdict.is_right
        lists = [decode_epochs((store / "epochFileCheckpoint").read_bytes()) for store in brokers.stores]
        assert lists[0].last_epoch == lists[1].last_epoch >= 3


async def test_what_only_a_killed_master_had_is_set_aside_when_it_follows_the_new_one(
    tmp_path: Path, run_java: Run
) -> None:
    """Lasts some 20 s: the brokers are both of CometMQ, only name server and controller are RocketMQ's."""
    async with pair(tmp_path, ("cometmq", "cometmq"), 1) as brokers:
        async with Lanes(brokers.namesrv, NAME, TOPIC, 1, pace_s=PACE_S) as lanes:
            master = await brokers.until_both_in_sync()
            await lanes.acknowledgement_begun_after(time.monotonic())
            await kill_master(brokers, lanes, master)
            store, other = brokers.stores[master], brokers.stores[1 - master]
            settings = StoreSettings(mapped_file_size_commit_log=1 << 20)
            with MessageStore.open(store, settings) as opened:  # as of sends that it had not passed on yet
                opened.append([new_message(topic=TOPIC, queue_id=0, body=b"of one")] * 3)
            await brokers.start(master)
            assert await brokers.until_both_in_sync() != master
            await lanes.acknowledgement_begun_after(time.monotonic())
        wait_until(lambda: logs_of(store) == logs_of(other))
        verdict = await lanes.judge()
        assert verdict.acknowledged and verdict.is_right
        commands = tmp_path / "commands"
        commands.write_text(f"getBrokerEpoch -b {NAME}\n")
        (answer,) = await asyncio.to_thread(run_java, "Mqadmin", brokers.namesrv, commands)
        assert answer["output"].count("epoch=2") == len(brokers.kinds), answer["output"]
        (folder,) = (store / "setaside").glob("truncated-*")
        (cut,) = layout.commitlog_dir(folder).iterdir()
        assert cut.read_bytes().count(b"of one") == 3 and b"of one" not in logs_of(store)


def logs_of(store: Path) -> bytes:
    files = sorted(layout.commitlog_dir(store).iterdir())
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")
