"""The list of consumer groups, and the page of one: its lag by queue, members and subscriptions."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response

from cometmq.admin import groups as admin_groups
from cometmq.admin import offsets
from cometmq.admin.group_survey import GroupSummary, survey_groups
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.console.visit import Visit
from cometmq.errors import SettingsError
from cometmq.format.layout import RETRY_PREFIX

SORTS: Final[dict[str, Callable[[GroupSummary, Mapping[str, int]], Any]]] = {
    "name": lambda group, _: group.group,
    "lag": lambda group, _: -group.lag,
    "members": lambda group, _: -group.members,
    "dead": lambda group, dead_letters: -dead_letters[group.group],
}
"""The orders of the list by their names in the address."""


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
