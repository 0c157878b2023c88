"""A server by the page ``docs/guide/server.md``, from installation to upgrade and back.

    python -m tests.campaigns servers [--acknowledged 2000] [--before COMMIT ...] [--plain] [--seed N]

Wheels of an earlier commit and of this checkout are built. The page's scripts install the earlier one, and
the units run: ``systemd.py`` starts them, as a user without privileges if this is root. Producers send all
the time while the broker is told to stop: it must end with 0, and have what it has acknowledged after the
next start. Then the page's scripts install this checkout's wheel beside the other and move the link. All that
was acknowledged must be there then, after another stop under load, after the way back, and in a copy that the
page checks and restores.

Without ``--before`` there are two earlier versions: the one that brought the page, and one before it,
whose servers know no users and do not notify systemd: the units run them, and a line of theirs is waited for.
"""

import asyncio
import logging
import os
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.kit import traffic
from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.progress import tell
from tests.campaigns.pages import wheels
from tests.campaigns.pages.server_machine import LEFT_OUT, Machine

from cometmq.client.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, read_credentials

BEFORE_THE_PAGE: Final = "34ec0a1a"
EARLIER, LATER = "0.1.0", "0.2.0"
"""The page's versions."""
BROKER, NAME_SERVER = "cometmq-broker", "cometmq-namesrv"
REGISTERED: Final = "until cometmq cluster | grep -q shop-a; do sleep 1; done"
"""Waits for the page's broker, which tries each second to register: a reader of the page is slower."""
OLD_OPTIONS: Final = "NAMESRV_OPTIONS=--host {} --port {}\n"
"""Of name servers that know no users."""


class Earlier(NamedTuple):
    """An earlier version; ``has_page`` tells whether its servers notify systemd, and know users."""

    commit: str
    wheel: Path
    has_page: bool

    @property
    def installed(self) -> str:
        """What ``pip`` is to install."""
        return f"{self.wheel}[{'fast,metrics' if self.has_page else 'broker'}]"


class Journey:
    """A server's way from an earlier version to this one and back, with all that it has acknowledged."""

    def __init__(self, machine: Machine, earlier: Earlier, options: Namespace) -> None:
        self._machine = machine
        self._earlier = earlier
        self._count: int = options.acknowledged
        self._run: int = options.seed
        self._without = " kernels " if options.plain else LEFT_OUT
        self._acknowledged: dict[traffic.Place, traffic.Acknowledgement] = {}

    def go(self) -> None:
        """Follow the whole guide. Raises AssertionError if something is lost, or not as the page says."""
        machine, earlier = self._machine, self._earlier
        with step("installed by the page"):
            machine.follow("Install", without=self._without if earlier.has_page else " kernels ")
            machine.follow("Settings")
            self._page_options = self._options.read_text()
        with step("started by its units"):
            self._match(earlier)
            if earlier.has_page:
                self._diagnose()
            machine.follow("Start")
            machine.run(REGISTERED)
            self._sign()
            if earlier.has_page:
                machine.type("Start")
            else:
                machine.run("cometmq topic create orders")
            asyncio.run(traffic.make_topics(machine.name_server))
        self._stop_under_load("the earlier version")
        with step("upgraded by the page"):
            self._upgrade()
        self._read_all("after the upgrade")
        self._stop_under_load("this version")
        self._restore()
        with step("the way back"):
            self._match(earlier)
            machine.systemd.do(f"systemctl stop {BROKER} {NAME_SERVER}")
            machine.run(f"ln -sfn {machine.root}/srv/cometmq-{EARLIER} {machine.root}/srv/cometmq")
            machine.systemd.do(f"systemctl start {BROKER} {NAME_SERVER}")
        self._read_all("after the way back")

    def _upgrade(self) -> None:
        """Follow the page; a version without users must make their file before the name server reads it."""
        machine, systemd = self._machine, self._machine.systemd
        if self._earlier.has_page:
            machine.follow("Upgrade", without=self._without)
            return
        systemd.do(f"systemctl stop {NAME_SERVER} {BROKER}")
        self._match(None)
        machine.follow("Upgrade", without=f"^(systemctl|cometmq doctor)|{self._without}")
        systemd.start(BROKER)
        systemd.start(NAME_SERVER)
        machine.run(f"{REGISTERED}; cometmq doctor")

    def _match(self, earlier: Earlier | None) -> None:
        """Set up name server and systemd as a version needs them, None for this one."""
        is_old = earlier is not None and not earlier.has_page
        self._machine.systemd.is_notified = not is_old
        host, _, port = self._machine.name_server.partition(":")
        self._options.write_text(OLD_OPTIONS.format(host, port) if is_old else self._page_options)

    @property
    def _options(self) -> Path:
        return self._machine.root / "etc/cometmq/namesrv.env"

    def _diagnose(self) -> None:
        """Check that the page's command finds what it must there: that no name server runs."""
        found = self._machine.type("Before the first start", status=1)
        faults = [line for line in found.splitlines() if line.startswith("FAULT")]
        assert len(faults) == 1 and "name server" in faults[0], found

    def _sign(self) -> None:
        """Sign as the page's user in the clients of this process."""
        credentials = read_credentials(self._machine.root / "etc/cometmq/admin.yml")
        assert credentials is not None
        os.environ[ACCESS_KEY_VARIABLE] = credentials.access_key
        os.environ[SECRET_KEY_VARIABLE] = credentials.secret_key

    def _stop_under_load(self, what: str) -> None:
        """Stop the broker while producers send, start it again, and read."""
        systemd, before = self._machine.systemd, len(self._acknowledged)
        self._run += 1

        def goes_on() -> bool:
            if len(self._acknowledged) == before + self._count:
                systemd.tell_to_stop(BROKER)
            return False

        with step(f"{what} is told to stop under load, ends with 0, and starts again"):
            asyncio.run(
                traffic.send_all_the_time(self._machine.name_server, self._run, self._acknowledged, goes_on)
            )
            systemd.await_end(BROKER)
            systemd.start(BROKER)
        self._read_all("after its stop")

    def _restore(self) -> None:
        """Copy the store of the stopped broker, check the copy, and go on with it."""
        machine = self._machine
        with step("copied, checked and restored by the page"):
            machine.systemd.stop(BROKER)
            machine.run(machine.here("cp -a /var/lib/cometmq/store /backup/"))
            assert "sound" in machine.type("Back up and restore")
            machine.systemd.start(BROKER)
            machine.follow("Back up and restore")
        self._read_all("from the copy")

    def _read_all(self, when: str) -> None:
        """Read all topics. Raises AssertionError if something that was acknowledged is not there."""
        with step(f"{len(self._acknowledged):,} acknowledged messages {when}: all there"):
            stored = asyncio.run(traffic.read_on(self._machine.name_server, {}))
            traffic.check_bodies(stored)
            lost = traffic.ages_of_lost(self._acknowledged, stored, time.monotonic())
            assert lost == [], f"{len(lost)} acknowledged messages are lost, the oldest {max(lost):.0f} s ago"


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print what was done once it is."""
    yield
    tell(title)


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, acknowledged=2_000)
    parser.add_argument("--before", action="append", help="a commit to upgrade from; repeatable")
    parser.add_argument("--plain", action="store_true", help="compile no kernels")


def main(options: Namespace) -> list[str]:
    """Follow the guide from each earlier version."""
    logging.getLogger("cometmq").setLevel(logging.ERROR)  # its clients lose a broker that is told to stop
    with tempfile.TemporaryDirectory(prefix="cometmq-servers-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the services are of another user
        with step("built the wheel of this checkout"):
            later = wheels.build(folder / "later")
        for commit in options.before or (wheels.first_with_page(), BEFORE_THE_PAGE):
            with step(f"built the wheel of {commit}"):
                wheel = wheels.build_of(commit, folder / commit)
            earlier = Earlier(commit, wheel, wheels.has_page(commit))
            installed = {EARLIER: earlier.installed, LATER: f"{later}[fast,metrics]"}
            machine = Machine(folder / f"from-{commit}", installed)
            with machine.systemd:
                Journey(machine, earlier, options).go()
    return []
