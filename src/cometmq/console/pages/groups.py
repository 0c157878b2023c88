"""The list of consumer groups, and the page of one: its lag by queue, members, subscriptions, and resets."""

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from cometmq.admin import groups as admin_groups
from cometmq.admin import offsets
from cometmq.admin.group_survey import GroupSummary, survey_groups
from cometmq.admin.offsets import ResetTarget, parse_queue, parse_target
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.console.visit import Visit, parse_number
from cometmq.errors import SettingsError
from cometmq.format.layout import RETRY_PREFIX

SORTS: Final[dict[str, Callable[[GroupSummary, Mapping[str, int]], Any]]] = {
    "name": lambda group, _: group.group,
    "lag": lambda group, _: -group.lag,
    "members": lambda group, _: -group.members,
    "dead": lambda group, dead_letters: -dead_letters[group.group],
}
"""The orders of the list by their names in the address."""

LINES_MAX: Final = 7
"""Most queues that a chart has lines for: those with the largest lags. The total counts all."""

RESET_FIELDS: Final = ("topic", "to", "offset", "queue")


async def groups(visit: Visit) -> Response:
    """Show the list."""
    part, sort = visit.text("find"), visit.text("sort", "name")
    if sort not in SORTS:
        raise SettingsError(f"sort {sort!r}: give one of {', '.join(SORTS)}")
    found = await survey_groups(visit.cluster, with_dead_letters=True)
    chosen = [group for group in found.groups if part.lower() in group.group.lower()]
    return visit.page(
        "groups.html",
        here="/groups",
        groups=sorted(chosen, key=lambda group: SORTS[sort](group, found.dead_letters)),
        dead_letters=found.dead_letters,
        query={"find": part, "sort": sort},
        troubles=found.troubles,
    )


async def group(visit: Visit) -> Response:
    """Show one group; ``owners=1`` asks the members which queues they have, for which they may take long."""
    name, wants_owners = visit.part("group"), visit.text("owners") == "1"
    cluster = TolerantAdmin(visit.cluster)
    found, progress = await asyncio.gather(
        admin_groups.show(cluster, name), offsets.progress_of(cluster, name)
    )
    owners = await admin_groups.owners(cluster, name) if wants_owners else {}
    return visit.page(
        "group.html",
        here="/groups",
        found=found,
        queues=progress.queues,
        has_committed=progress.has_committed,
        deliveries_per_s=progress.deliveries_per_s,
        lag=sum(queue.lag for queue in progress.queues),
        topics=sorted({queue.topic for queue in progress.queues if not queue.topic.startswith(RETRY_PREFIX)}),
        owners=owners,
        wants_owners=wants_owners,
        reset=visit.text("reset"),
        troubles=cluster.troubles,
    )


async def lags(visit: Visit) -> Response:
    """Return the lags that the console has sampled, for the chart: times, totals and the worst queues."""
    group = visit.part("group")
    if visit.site.settings.login:  # what it may see the brokers decide: they sampled for the console itself
        await offsets.progress_of(visit.cluster, group)
    found = visit.site.observations.lags.of_group(group)
    worst = sorted(found.queues.items(), key=lambda item: -max((lag or 0 for lag in item[1]), default=0))
    return JSONResponse(
        {
            "times": found.times,
            "total": found.total or [None] * len(found.times),
            "queues": [
                {"name": f"{queue.topic} {queue.broker_name}:{queue.queue_id}", "lags": series}
                for queue, series in worst[:LINES_MAX]
            ],
            "queue_count": len(found.queues),
            "is_whole": found.is_whole,
        }
    )


class WantedReset(NamedTuple):
    """The reset that a form asks for; ``queue`` is the only one to reset."""

    group: str
    topic: str
    target: ResetTarget
    queue: tuple[str, int] | None


async def plan_reset(visit: Visit) -> Response:
    """Show the form, what the reset that it asks for would change, and the command that does the same."""
    group = visit.part("group")
    query = {name: visit.text(name) for name in RESET_FIELDS}
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
    wanted = wanted_of(group, {name: visit.form.get(name, "").strip() for name in RESET_FIELDS})
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
