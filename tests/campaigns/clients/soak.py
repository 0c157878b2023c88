"""A soak: clients over connections that are cut and harmed, and a broker that comes and goes.

    python -m tests.campaigns soak [--minutes 30] [--seed N]

Two brokers, one of which is ended or killed in each minute and started again; all that clients hear and say
goes through proxies. Each minute is wild at first, then calm. By the end of the calm all must be handled that
was sent before it, in order where that is wanted. From minute 5 to the end the memory of the clients' process
and of the broker that stays, and the clients' tasks and file descriptors, must be as they were (5 %). Tasks
and descriptors are looked at each second, and of a calm's looks the least counts: a second's commits come and
go, a leak stays.
"""

import asyncio
import json
import random
import signal
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Final

from tests.campaigns.clients.soak_clients import TOPICS, run
from tests.campaigns.clients.soak_ledger import Ledger
from tests.campaigns.kit.growth import Sample, memory
from tests.campaigns.kit.processes import BrokerProcess, Process
from tests.campaigns.kit.progress import print_head, print_row
from tests.campaigns.kit.wild_proxy import Proxy
from tests.interop.peers import HOST

from cometmq.admin.topics import TopicAdmin

OUTSIDE: Final = "127.0.0.2"
"""Where the proxies listen: all of 127.0.0.0/8 is this machine."""
QUEUES: Final = 4
WILD_S: Final = 25.0
CALM_S: Final = 35.0
AWAY_S_MAX: Final = 3.0
WARM_MINUTES: Final = 5
END_S: Final = 60.0
LOOK_S: Final = 0.1
LARGE: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 28,
    "mapped_file_size_consume_queue": 20 * 300_000,
    "max_hash_slot_num": 100_000,
    "max_index_num": 2_000_000,
}
"""Files that last for a soak, so that their number stays what it is."""
COLUMNS: Final = (
    *("minute", "sent", "failed", "handled", "twice", "waiting", "halved", "swallowed", "cut", "restarts"),
    *("clients KiB", "broker KiB", "without files", "tasks", "files"),
)


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--minutes", type=int, default=30)


def main(options: Namespace) -> list[str]:
    """Soak; print a line each minute."""
    print_head(*COLUMNS)
    with tempfile.TemporaryDirectory() as directory:
        soak = Soak(Path(directory), random.Random(options.seed))
        asyncio.run(soak.run(options.minutes))
    return soak.wrong


class Soak:
    """The brokers, the proxies, and the process with the clients."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.wrong: list[str] = []
        self._chance = chance
        settings: dict[str, Any] = {"store": LARGE, "broker_ip": OUTSIDE}
        self._steady = BrokerProcess(directory / "steady", broker_name="steady", **settings)
        self._restless = BrokerProcess(
            directory / "restless",
            broker_name="restless",
            namesrv_addr=self._steady.name_server,
            **settings,
        )
        ports = (self._steady.port, self._steady.namesrv_port, self._restless.port)
        self._proxies = [Proxy(HOST, port, chance.randrange(2**32)) for port in ports]
        self._ledger = Ledger()
        self._restarts = 0
        self._looks: list[tuple[int, int]] = []
        self._counted = asyncio.Event()

    async def run(self, minutes: int) -> None:
        """Run for the minutes; what is wrong is in ``wrong``."""
        await self._steady.start()
        await self._restless.start()
        for proxy in self._proxies:
            await proxy.start(OUTSIDE)
        async with TopicAdmin(self._steady.name_server) as admin:
            for topic in TOPICS:
                await admin.create(topic, queues=QUEUES)
        outside = f"{OUTSIDE}:{self._steady.namesrv_port}"
        self._clients = await Process.start(run, outside, on_line=self._take)
        try:
            await self._soak(minutes)
        finally:
            self._set_wild(False)
            await self._clients.end(signal.SIGTERM)
            for proxy in self._proxies:
                await proxy.stop()
            await self._restless.end(signal.SIGTERM)
            await self._steady.end(signal.SIGTERM)

    async def _soak(self, minutes: int) -> None:
        warm: Sample | None = None
        for minute in range(1, minutes + 1):
            await self._be_wild()
            calm_since = self._now()
            self._looks.clear()
            await asyncio.sleep(CALM_S)
            if late := self._ledger.waiting_in(sent_before=calm_since):
                self.wrong.append(f"minute {minute}: after {CALM_S:.0f} s of calm are stuck {late}")
            sample = await self._sample()
            self._print(minute, sample)
            if minute <= WARM_MINUTES and minute < minutes:
                warm = sample
        self._clients.tell(signal.SIGUSR1)
        for _ in range(int(END_S / LOOK_S)):
            if not self._ledger.waiting():
                break
            await asyncio.sleep(LOOK_S)
        if lost := self._ledger.waiting_in():
            self.wrong.append(f"messages are lost: {lost}")
        if self._ledger.disordered:
            self.wrong.append(f"{self._ledger.disordered} messages passed over one of their queue")
        if warm is not None:
            self.wrong += sample.grown_since(warm)

    async def _be_wild(self) -> None:
        """Harm what passes, and let the restless broker go and come once."""
        self._set_wild(True)
        before_s = self._chance.uniform(0, WILD_S / 2)
        away_s = self._chance.uniform(0, AWAY_S_MAX)
        await asyncio.sleep(before_s)
        await self._restless.end(self._chance.choice((signal.SIGTERM, signal.SIGKILL)))
        await asyncio.sleep(away_s)
        await self._restless.start()
        self._restarts += 1
        await asyncio.sleep(WILD_S - before_s - away_s)
        self._set_wild(False)

    def _set_wild(self, wild: bool) -> None:
        for proxy in self._proxies:
            proxy.wild = wild

    async def _sample(self) -> Sample:
        self._counted.clear()
        await self._clients.until(self._counted)
        broker = self._steady.pid
        rss = {
            "clients": memory(self._clients.pid),
            "broker": memory(broker),
            "broker without files": memory(broker, "RssAnon"),
        }
        tasks, files = zip(*self._looks, strict=True)
        return Sample(rss, min(tasks), min(files))

    def _print(self, minute: int, sample: Sample) -> None:
        ledger = self._ledger
        harm = [sum(proxy.harm[name] for proxy in self._proxies) for name in ("halved", "swallowed", "cut")]
        counts = [minute, ledger.sent, ledger.failed, ledger.handled, ledger.duplicates, ledger.waiting()]
        sizes = [size >> 10 for size in sample.rss.values()]
        cells = [*counts, *harm, self._restarts, *sizes, sample.tasks, sample.files]
        print_row(*cells)

    def _take(self, line: bytes) -> None:
        event, *what = json.loads(line)
        if event == "counts":
            tasks, files = what
            self._looks.append((tasks, files))
            self._counted.set()
        elif event == "sent":
            number, queue = what
            self._ledger.note_sent(number, self._now(), queue)
        elif event == "failed":
            self._ledger.failed += 1
        else:
            topic, number, queue, queue_offset = what
            self._ledger.note_handled(number)
            if TOPICS[topic]:
                self._ledger.note_in_order(queue, queue_offset)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
