"""The server that the page is about: directories below one of ours, free ports here, and a user."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.campaigns.pages.server_page import script, steps, typed
from tests.campaigns.pages.systemd import Systemd
from tests.interop.ports import HOST, free_port
from tests.kit.pages import ROOT

ADDRESS: Final = "10.0.0.5"
"""Of the page's machine."""
FOLDERS: Final = ("/srv/", "/etc/cometmq", "/etc/systemd/system/", "/var/lib/cometmq", "/backup/")
NOBODY: Final = 65_534
"""Whom the services run as, if this is root."""
LEFT_OUT: Final = "^useradd "
"""What would change the machine that this runs on."""


class Machine:
    """A server below a directory, which is not there yet.

    Args:
        installed: what is installed in place of the page's versions, as ``pip`` takes it.

    Attributes:
        name_server: the address of its name server.
    """

    def __init__(self, root: Path, installed: Mapping[str, str]) -> None:
        port = free_port()
        self.root = root
        self.name_server = f"{HOST}:{port}"
        user = NOBODY if os.geteuid() == 0 else None
        own_ports = f"listenPort={free_port()}\nmetricsPromExporterPort={free_port()}"
        self._texts = {
            **{folder: f"{root}{folder}" for folder in FOLDERS},
            f"{ADDRESS}:9876": self.name_server,
            f"--host {ADDRESS}": f"--host {HOST} --port {port}",
            f"bindAddress={ADDRESS}": f"bindAddress={HOST}\n{own_ports}",
            ADDRESS: HOST,
            "packaging/": f"{ROOT}/packaging/",
            "cometmq:cometmq": f"{os.geteuid() if user is None else user}",
            **{f"cometmq[fast,metrics]=={version}": what for version, what in installed.items()},
        }
        self._words = re.compile("|".join(map(re.escape, self._texts)))
        state = root / "var/lib/cometmq"
        for folder in (root / "srv", root / "etc/systemd/system", state, root / "backup", root / "run"):
            folder.mkdir(parents=True)
        if user is not None:
            os.chown(state, user, user)
        self.systemd = Systemd(root / "run", self._unit_text, user)

    def here(self, text: str) -> str:
        """Return a text of the page with this machine's directories, ports and versions."""
        return self._words.sub(lambda found: self._texts[found[0]], text)

    def follow(self, title: str, *, without: str = LEFT_OUT) -> None:
        """Run the script of a section, but for lines with a pattern. Raises AssertionError if one fails."""
        lines = script(title).splitlines()
        kept = [line for line in lines if not re.search(f"{LEFT_OUT}|{without}", line)]
        for is_systemctl, text in steps(self.here("\n".join(kept))):
            if is_systemctl:
                for line in text.splitlines():
                    self.systemd.do(line)
            else:
                self.run(text)

    def type(self, title: str, status: int = 0) -> str:
        """Run what is typed in a section; return what it prints. Raises AssertionError as ``run``."""
        return self.run("\n".join(map(self.here, typed(title))), status)

    def run(self, text: str, status: int = 0) -> str:
        """Run a script; return what it prints. Raises AssertionError if it does not end with this status."""
        folder = self.root / "srv/cometmq"
        variables = {
            "PATH": f"{folder}/bin:{os.defpath}",  # the system's Python, which other users can read
            "NAMESRV_ADDR": self.name_server,
            "COMETMQ_CREDENTIALS": f"{self.root}/etc/cometmq/admin.yml",
            "COMETMQ_KERNELS_CACHE": f"{folder}/kernels",
        }
        ran = subprocess.run(
            ["bash", "-euc", text],
            cwd=self.root,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == status, f"{text}\nended with {ran.returncode}:\n{ran.stdout}"
        return ran.stdout

    def _unit_text(self, name: str) -> str:
        return self.here((self.root / "etc/systemd/system" / f"{name}.service").read_text())
