"""``cometmq doctor``: find what is wrong with a cluster or a broker's machine, and name the remedy."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from cometmq.admin.doctor import cluster
from cometmq.admin.doctor.findings import Diagnosis, Level, counted
from cometmq.cli.access import access
from cometmq.cli.main import EXIT_FAILED
from cometmq.cli.output import json_option, namesrv_option, print_json, print_line
from cometmq.cli.paths import NamedPath
from cometmq.extras import require

_STYLES: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}
_WIDTH: Final = max(map(len, Level))


@click.command()
@click.option(
    "--config",
    type=NamedPath(dir_okay=False),
    help="Settings file of a broker: examine this machine for it, and its name servers.",
)
@click.option("--topic", help="Examine the route of this topic only.")
@namesrv_option
@json_option
@click.pass_context
def doctor(
    context: click.Context, config: Path | None, topic: str | None, namesrv: str, as_json: bool
) -> None:
    """Find what is wrong with a cluster, as this machine sees it, and name the remedy.

    It asks the name servers and each broker that they know, at the address that it advertises. With --config
    it examines the machine of a broker too: run it there, as the broker's user. Nothing is changed.

    Exit code 1 if there is a fault; warnings alone are 0.
    """
    if config is not None:
        require("broker", "cometmq doctor --config")
    is_named = context.get_parameter_source("namesrv") is not ParameterSource.DEFAULT
    findings = asyncio.run(_examine(config, topic, namesrv, is_named=is_named))
    counts = Counter(one.level for one in findings)
    if as_json:
        print_json(
            {
                "faults": counts[Level.FAULT],
                "warnings": counts[Level.WARNING],
                "findings": [one._asdict() for one in findings],
            }
        )
    else:
        for head, text in _lines(findings):
            print_line(text, head=head)
        faults, warnings = counted(counts[Level.FAULT], "fault"), counted(counts[Level.WARNING], "warning")
        print_line()
        print_line(f"{faults}, {warnings}, {counts[Level.OK]} checks passed")
    if counts[Level.FAULT]:
        context.exit(EXIT_FAILED)


async def _examine(
    config: Path | None, topic: str | None, namesrv: str, *, is_named: bool
) -> list[Diagnosis]:
    """Examine the machine for the settings in ``config``, if that is given, and the cluster.

    Without --namesrv the cluster is that of the settings.
    """
    if config is None:
        return await cluster.examine(namesrv, topic, **access())
    from cometmq.admin.doctor import machine  # noqa: PLC0415 - absent where only clients are installed

    settings, findings = machine.read_settings(config)
    if settings is None:
        return findings
    findings += await machine.examine(settings, **access())
    name_servers = namesrv if is_named else settings.broker.network.namesrv_addr
    if name_servers:
        is_new = any(one.text == machine.PORTS_FREE for one in findings)
        findings += await cluster.examine(name_servers, topic, is_new=is_new, **access())
    return findings


def _lines(findings: list[Diagnosis]) -> Iterator[tuple[str, str]]:
    """Format findings, the faults last: that is where a reader of a terminal looks first."""
    for one in sorted(findings, key=lambda one: list(Level).index(one.level)):
        level = click.style(
            one.level.upper() if one.level is Level.FAULT else one.level, fg=_STYLES[one.level]
        )
        pad = " " * (_WIDTH - len(one.level))
        yield f"{level}{pad}  ", f"{one.check}: {one.subject}: {one.text}"
        if one.remedy:
            yield f"{' ' * _WIDTH}  → ", one.remedy
