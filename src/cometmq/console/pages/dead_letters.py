"""Dead letters: the groups that have any, those of one group, and sending them again."""

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from cometmq.admin import dead_letters as admin_letters
from cometmq.admin import messages
from cometmq.admin.times import TimeRange, parse_range
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.console.bodies import short_text
from cometmq.console.pages.messages import LIMIT_MAX, SEARCH_S, first_of
from cometmq.console.visit import Visit
from cometmq.errors import NotFound, SettingsError
from cometmq.format.layout import DLQ_PREFIX

TICK: Final = "letter."
"""Begins the names of the form's fields for letters; the rest is the letter's offset id."""


async def dead_letters(visit: Visit) -> Response:
    """Show the groups that have dead letters."""
    cluster = TolerantAdmin(visit.cluster)
    found = await admin_letters.groups(cluster)
    return visit.page(
        "dead_letters.html",
        here="/dead-letters",
        groups=[one for one in found if one.letters],
        troubles=cluster.troubles,
    )


async def letters(visit: Visit) -> Response:
    """Show the dead letters of a group, the oldest first."""
    group, time = visit.part("group"), visit.text("time")
    limit = visit.number("limit", 100, least=1, most=LIMIT_MAX)
    times = parse_range(time, "time") if time else TimeRange()
    walk = admin_letters.letters(visit.cluster, group, begin=times.begin, end=times.end)
    try:
        found, is_whole = await first_of(walk, limit)
    except NotFound:  # the group has no topic of dead letters yet
        found, is_whole = [], True
    rows = [(one.message, admin_letters.topic_of(one.message), short_text(one)) for one in found]
    return visit.page(
        "letters.html",
        here="/dead-letters",
        group=group,
        rows=rows,
        is_whole=is_whole,
        search_s=SEARCH_S,
        time=time,
        limit=limit,
        resent=visit.text("resent"),
    )


async def resend(visit: Visit) -> Response:
    """Send the letters that are ticked to their group again, or to all groups of their topics."""
    group, to_topic = visit.part("group"), visit.form.get("to_topic") == "1"
    ids = [name.removeprefix(TICK) for name in visit.form if name.startswith(TICK)]
    if not ids:
        raise SettingsError("tick the dead letters to send again")
    topic = DLQ_PREFIX + group
    found = [(await messages.by_id(visit.cluster, letter_id, topic, limit=1))[0] for letter_id in ids]
    await admin_letters.resend_all(visit.cluster, group, found, to_topic=to_topic)
    return visit.go_to(f"/dead-letters/{quote(group, safe='')}", resent=str(len(ids)))
