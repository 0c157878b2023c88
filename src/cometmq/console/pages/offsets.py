"""Reset a group's offsets: first what would change, and the command that does the same, then the change."""

import shlex
import time
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from cometmq.admin import offsets
from cometmq.admin.offsets import ResetTarget, parse_queue, parse_target
from cometmq.console.visit import Visit, parse_number
from cometmq.errors import SettingsError

FIELDS: Final = ("topic", "to", "offset", "queue")


class WantedReset(NamedTuple):
    """The reset that a form asks for; ``queue`` is the only one to reset."""

    group: str
    topic: str
    target: ResetTarget
    queue: tuple[str, int] | None


async def plan(visit: Visit) -> Response:
    """Show the form, and what the reset that it asks for would change."""
    group = visit.part("group")
    query = {name: visit.text(name) for name in FIELDS}
    moves, command = None, ""
    if query["topic"] and (query["to"] or query["offset"]):
        wanted = wanted_of(group, query)
        moves = await offsets.reset(
            visit.cluster, group, wanted.topic, wanted.target, queue=wanted.queue, dry_run=True
        )
        command = command_of(group, query, visit.site.settings.name_servers)
    return visit.page(
        "reset.html",
        here="/groups",
        group=group,
        query=query,
        moves=moves,
        command=command,
        to_help=offsets.TO,
    )


async def reset(visit: Visit) -> Response:
    """Reset the offsets, and show the group."""
    group = visit.part("group")
    wanted = wanted_of(group, {name: visit.form.get(name, "").strip() for name in FIELDS})
    await offsets.reset(visit.cluster, group, wanted.topic, wanted.target, queue=wanted.queue)
    return visit.go_to(f"/groups/{quote(group, safe='')}", reset=wanted.topic)


def wanted_of(group: str, query: Mapping[str, str]) -> WantedReset:
    """Parse the fields of the form. Raises SettingsError."""
    if not query["topic"]:
        raise SettingsError("give the topic in which to reset the offsets")
    if bool(query["to"]) == bool(query["offset"]):
        raise SettingsError(f"give either a place ({offsets.TO}) or an offset")
    if query["to"]:
        target = parse_target(query["to"], int(time.time() * 1000), option="to")
    else:
        target = ResetTarget(offset=parse_number("offset", query["offset"], 0))
    queue = parse_queue(query["queue"], option="queue") if query["queue"] else None
    return WantedReset(group, query["topic"], target, queue)


def command_of(group: str, query: Mapping[str, str], name_servers: str) -> str:
    """Return the command line that does the same."""
    words = ["cometmq", "offset", "reset", group, query["topic"]]
    words += ["--to", query["to"]] if query["to"] else ["--to-offset", query["offset"]]
    if query["queue"]:
        words += ["--queue", query["queue"]]
    return shlex.join([*words, "--namesrv", name_servers])
