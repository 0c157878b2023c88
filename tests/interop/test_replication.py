"""Masters and slaves of both products in one pair: the same log, and consumers that go on at the slave."""

import asyncio
import contextlib
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.console.conftest import browsing
from tests.interop import peers, remoting
from tests.interop.jvm import Run
from tests.interop.patience import wait_until
from tests.kit.replication_peers import BOTH, FILE, HA_STATUS, SLAVE, TOPIC_CONFIG, asked, ha_port

from cometmq.console.settings import ConsoleSettings

pytestmark = pytest.mark.interop

COUNT = 10_000
TOPIC = "Replicated"


@pytest.mark.parametrize(("leads", "follows"), [("cometmq", "rocketmq"), ("rocketmq", "cometmq")])
def test_a_slave_of_the_other_product_has_the_same_log_and_serves_when_the_master_is_gone(
    leads: str, follows: str, tmp_path: Path, run_java: Run
) -> None:
    """Lasts some 20 s: a Java slave copies its master's topics 10 s after its start, and starts in 5 s.

    A Java master sends a new slave only its last file: so ours is there from the beginning, and killed once.
    """
    names = peers.START_NAMESRV[leads](tmp_path / "names")
    with names as namesrv, contextlib.ExitStack() as until_the_end:
        with peers.START_BROKER[leads](
            tmp_path / "master", namesrv, BOTH | ha_port(), ended_by=signal.SIGKILL
        ) as master:
            first = slave_of(namesrv, tmp_path, follows) if follows == "cometmq" else contextlib.nullcontext()
            with first:
                run_java("Send", namesrv, TOPIC, "replicated", COUNT // 2)
            slave = until_the_end.enter_context(slave_of(namesrv, tmp_path, follows))
            run_java("Send", namesrv, TOPIC, "later", COUNT // 2)
            end = caught_up(master)
            assert end > 2 * FILE
            assert log_of(slave.store)[:end] == log_of(master.store)[:end]
            wait_until(lambda: asked(slave.broker, TOPIC_CONFIG, topic=TOPIC).code == 0)
            status = json.loads(asked(slave.broker, HA_STATUS).body)
            assert not status["master"] and status["haClientRuntimeInfo"]["maxOffset"] == end
            check_page(master, slave, end)
        wait_until(lambda: master.broker.encode() not in asked(namesrv, remoting.GET_ROUTE, topic=TOPIC).body)
        (got,) = run_java("ConsumeAll", namesrv, TOPIC, "replicated", COUNT // 2)
        assert got["received"] == COUNT // 2 and not got["missing"] + got["twice"] + got["damaged"]
        print(f"\n{follows} behind {leads}: {end} bytes equal, {got}")


@pytest.mark.interop_long
def test_both_name_servers_have_the_same_acting_master_in_their_routes(tmp_path: Path, run_java: Run) -> None:
    acts = BOTH | {"enableSlaveActingMaster": "true", "slaveReadEnable": "true"}
    with (
        peers.rocketmq_namesrv(tmp_path / "names", added={"supportActingMaster": "true"}) as theirs,
        peers.cometmq_namesrv(options=("--acting-masters",)) as ours,
    ):
        both = f"{theirs};{ours}"

        def brokers() -> list[Any]:
            """Return what each name server says of the topic's broker."""
            answers = [asked(namesrv, remoting.GET_ROUTE, topic=TOPIC) for namesrv in (theirs, ours)]
            return [json.loads(quoted(one.body)) if one.code == 0 else None for one in answers]

        def agree_on(*addresses: str) -> bool:
            found, other = brokers()
            wanted = {str(broker_id): address for broker_id, address in enumerate(addresses)}
            return bool(found == other and found["brokerDatas"][0]["brokerAddrs"] == wanted)

        def running(name: str, **settings: object) -> contextlib.AbstractContextManager[peers.Peer]:
            own = acts | ha_port() | settings
            return peers.cometmq_broker(tmp_path / name, both, own, ended_by=signal.SIGKILL)

        with running("slave", **SLAVE) as slave:
            with running("master") as master:
                run_java("Send", theirs, TOPIC, "replicated", COUNT)
                caught_up(master)
                wait_until(lambda: asked(slave.broker, TOPIC_CONFIG, topic=TOPIC).code == 0)
                wait_until(lambda: agree_on(master.broker, slave.broker))
            wait_until(lambda: agree_on(slave.broker))
            (got,) = run_java("ConsumeAll", theirs, TOPIC, "replicated", COUNT)
            assert got["received"] == COUNT and not got["missing"] + got["twice"] + got["damaged"]
            with running("master") as master:
                wait_until(lambda: agree_on(master.broker, slave.broker))


def quoted(route: bytes) -> bytes:
    """Return a route with quotes around broker ids, as which Java writes numbers."""
    return re.sub(rb"([{,])(\d+):", rb'\1"\2":', route)


def check_page(master: peers.Peer, slave: peers.Peer, end: int) -> None:
    """Wait until the console shows both as they are: on a busy machine one may not answer at first."""
    shown = [
        "Masters 1 Connected slaves 1 In sync 1 Furthest behind 0 B",
        f"pair master {master.broker} {end:,} 0 B 1 1 –",
        f"pair slave 1 {slave.broker} {end:,} 0 B – – ",
        f" {end:,} 0 B 0 ",
    ]

    async def page() -> str:
        async with browsing(ConsoleSettings(master.namesrv)) as browser:
            return await browser.text("/replication")

    def is_shown() -> bool:
        found = asyncio.run(page())
        print(found)
        return all(part in found for part in shown) and "never" not in found

    wait_until(is_shown)


def slave_of(namesrv: str, root: Path, name: str) -> contextlib.AbstractContextManager[peers.Peer]:
    """Run the slave, which is killed at the end: a Java broker takes 10 s for a clean stop."""
    settings = BOTH | SLAVE | ha_port()
    return peers.START_BROKER[name](root / "slave", namesrv, settings, ended_by=signal.SIGKILL)


def caught_up(master: peers.Peer) -> int:
    """Wait until the slave has acknowledged all; return the end of the log."""
    status: dict[str, Any] = {}

    def has_all() -> bool:
        status.update(json.loads(asked(master.broker, HA_STATUS).body))
        acked = [slave["slaveAckOffset"] for slave in status["haConnectionInfo"]]
        return acked == [status["masterCommitLogMaxOffset"]] and status["inSyncSlaveNums"] == 1

    wait_until(has_all)
    return int(status["masterCommitLogMaxOffset"])


def log_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").glob("[0-9]*")))
