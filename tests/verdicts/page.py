"""The page of verdicts: its tables are made from what CometMQ's servers answer, and from the differences."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.access_settings import ADMIN
from tests.broker.auth.signing import ROOT, checking
from tests.kit.pages import ROOT as CHECKOUT
from tests.verdicts.asking import WITH_POLICIES, Verdict, Verdicts, prepare, store_messages, verdicts
from tests.verdicts.cases import Case, broker_cases, name_server_cases, wanted_sets
from tests.verdicts.differences import DIFFERENCES, number_of, rocketmqs
from tests.verdicts.senders import DISABLED_USER, PASSWORD, STRANGERS, Sender, Wanted, acl_of, user_of

from cometmq.access.directory import Directory
from cometmq.access.infos import acl_of as decoded_acl
from cometmq.access.users import User, UserStatus
from cometmq.namesrv.access import NameServerAccess
from cometmq.namesrv.name_server import NameServer

PAGE: Final = CHECKOUT / "docs" / "reference" / "verdicts.md"
SETTINGS: Final[dict[str, Any]] = {
    "failed_signatures_max": 0,
    "unsigned_requests_max": 0,
    "recall_message_enable": True,
}
"""So that each request is looked at, and none is refused for another reason."""
TABLE: Final = re.compile(r"^\| code \|.*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)
REASONS: Final = re.compile(r"^1\. .*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)
_SHOWN: Final = tuple(sender for sender in Sender if sender not in STRANGERS)


async def at_our_broker(root: Path) -> tuple[list[Case], Verdicts]:
    """Return the requests to a broker, and CometMQ's verdicts on them."""
    async with checking(root, **SETTINGS) as broker:
        cases = broker_cases(await store_messages(broker.address, ROOT))
        await prepare(broker.address, ROOT, cases)
        return cases, await verdicts(broker.address, ROOT, cases)


async def at_our_name_server(root: Path) -> tuple[list[Case], Verdicts]:
    """Return the requests to a name server, and CometMQ's verdicts on them."""
    cases = name_server_cases()
    access = NameServerAccess(_saved_users(root, cases), (ADMIN,), failed_signatures_max=0)
    server = NameServer(port=0, access=access)
    await server.start()
    try:
        return cases, await verdicts(server.address, ADMIN, cases)
    finally:
        await server.stop()


def _saved_users(root: Path, cases: Sequence[Case]) -> Path:
    """Save the senders as a broker does; return the file of the users."""
    directory = Directory()
    directory.create(User(DISABLED_USER, PASSWORD, status=UserStatus.DISABLE))
    for wanted, number in wanted_sets(cases).items():
        for sender in WITH_POLICIES:
            directory.create(User(user_of(sender, number), PASSWORD))
            if (acl := acl_of(sender, number, wanted)) is not None:
                directory.put_acl(decoded_acl(acl))
    content = directory.snapshot()
    for name, plain in (("users", content.plain_users()), ("acls", content.plain_acls())):
        path = root / f"{name}.json"
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode({name: plain}))
    return root / "users.json"


def table(cases: Sequence[Case], ours: Verdicts, theirs: Verdicts) -> str:
    """Build the table of some requests. The first four senders have the same verdict on each.

    Where RocketMQ's verdict differs it is in brackets, and the last column has the number of the reason.
    """
    lines = [
        f"| code | name | needs | unsigned, unknown, forged, disabled | {' | '.join(_SHOWN)} | why |",
        f"|{'---|' * (len(_SHOWN) + 5)}",
    ]
    for case in cases:
        text = str(case)
        strangers = {ours[text][sender] for sender in STRANGERS} | {
            theirs[text][sender] for sender in STRANGERS
        }
        assert len(strangers) == 1, f"{text}: {strangers}"
        name = f"`{case.code.name}`{case.note and f' {case.note}'}"
        cells = [
            str(int(case.code)),
            name,
            _needs(case.wanted),
            strangers.pop().value,
            *(_cell(ours[text][sender], theirs[text][sender]) for sender in _SHOWN),
            _reasons_for(text),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def reasons() -> str:
    """Build the list of reasons."""
    return "".join(f"{number}. {one.reason}.\n" for number, one in enumerate(DIFFERENCES, 1))


async def written(text: str, root: Path) -> str:
    """Return the page's text with its tables and reasons made anew."""
    at_broker, at_name_server = root / "broker", root / "name-server"
    at_name_server.mkdir()
    cases, ours = await at_our_broker(at_broker)
    made = [table(cases, ours, rocketmqs(ours))]
    cases, ours = await at_our_name_server(at_name_server)
    made.append(table(cases, ours, ours))
    tables = iter(made)
    return REASONS.sub(lambda _: reasons(), TABLE.sub(lambda _: next(tables), text))


def _needs(wanted: Wanted) -> str:
    return ", ".join(map(str, wanted)).replace("|", " or ") or "nothing"


def _cell(ours: Verdict, theirs: Verdict) -> str:
    return ours.value if ours is theirs else f"{ours.value} ({theirs.value})"


def _reasons_for(case: str) -> str:
    numbers = {number_of(case, sender) for sender in Sender} - {None}
    return ", ".join(map(str, sorted(filter(None, numbers))))
