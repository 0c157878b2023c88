"""Sends each request of the table by each sender to a server; the answers show who was let through."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from itertools import repeat
from typing import Final

from tests.broker.conftest import send_header
from tests.kit.request_bodies import TOPIC
from tests.verdicts.cases import OTHER_TOPIC, SUBJECT_USER, Case, Places, wanted_sets
from tests.verdicts.senders import (
    DISABLED_USER,
    LIMITED,
    PASSWORD,
    Sender,
    acl_of,
    credentials_of,
    user_of,
)

from cometmq.errors import CometMQError
from cometmq.format.message_id import parse_offset_message_id
from cometmq.net.connection import Connection
from cometmq.wire import bodies, headers
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.bodies.access import UserInfo
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

PATIENCE_MS: Final = 120_000
"""How long a server may take on a busy machine."""
WITH_POLICIES: Final = (*LIMITED, Sender.EXACT, Sender.PREFIX, Sender.ANY)


class Verdict(Enum):
    """What became of a request, by its sign in the table."""

    STRANGER = "–"  # refused: no user has signed it who may sign
    FORBIDDEN = "no"  # refused: its user may not do that
    PASSED = "yes"  # let through, whatever it was answered


Verdicts = dict[str, dict[Sender, Verdict]]
"""For each request, by its text, the verdict on each sender."""

_STRANGER: Final = ("username cannot be null.", "is not found.", "is disabled.", "check signature failed.")
_FORBIDDEN: Final = "has no permission to access"
_OF_HANDLERS: Final = ("The user is existed", "is not exist.", "The user is not exist")
"""What the handlers of requests about users and acls answer with the same code."""


def verdict_of(answer: Command) -> Verdict:
    """Return the verdict that an answer shows. Raises AssertionError if it shows none."""
    remark = answer.remark or ""
    if answer.code != ResponseCode.NO_PERMISSION or remark.endswith(_OF_HANDLERS):
        return Verdict.PASSED
    if any(text in remark for text in _STRANGER):
        return Verdict.STRANGER
    assert _FORBIDDEN in remark, answer
    return Verdict.FORBIDDEN


async def prepare(address: str, admin: Credentials, cases: Sequence[Case]) -> None:
    """Create the users and their acls at a broker, by an operator's requests."""
    async with _connected(address, admin) as connection:
        users = [UserInfo(SUBJECT_USER, PASSWORD), UserInfo(DISABLED_USER, PASSWORD, "Normal", "disable")]
        sets = wanted_sets(cases).items()
        users += [
            UserInfo(user_of(sender, number), PASSWORD) for sender in WITH_POLICIES for _, number in sets
        ]
        await _accepted(
            connection,
            (_about(RequestCode.AUTH_CREATE_USER, {"username": user.username or ""}, user) for user in users),
        )
        acls = [acl_of(sender, number, wanted) for sender in WITH_POLICIES for wanted, number in sets]
        await _accepted(
            connection,
            (
                _about(RequestCode.AUTH_CREATE_ACL, {"subject": acl.subject or ""}, acl)
                for acl in acls
                if acl is not None
            ),
        )


async def store_messages(address: str, admin: Credentials) -> Places:
    """Send two messages; return where they are."""
    async with _connected(address, admin) as connection:
        ids = []
        for topic in (TOPIC, OTHER_TOPIC):
            fields = headers.fields(send_header(topic))
            send = Command(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=b"x")
            answer = await connection.request(send, PATIENCE_MS)
            assert answer.code == ResponseCode.SUCCESS, answer
            ids.append(answer.ext_fields["msgId"])
    offset, other_offset = (parse_offset_message_id(one).physical_offset for one in ids)
    return Places(offset, ids[0], other_offset)


async def verdicts(
    address: str, admin: Credentials, cases: Sequence[Case], senders: Iterable[Sender] = Sender
) -> Verdicts:
    """Send the requests, those of one case side by side, each by a connection of its sender."""
    connections = {sender: await Connection.open(address, timeout_ms=PATIENCE_MS) for sender in senders}
    numbers = wanted_sets(cases)
    found: Verdicts = {}
    try:
        for case in cases:
            number = numbers[case.wanted]
            commands = [
                _signed(case, sender, credentials_of(sender, number, admin)) for sender in connections
            ]
            try:
                answers = await _answers(connections.values(), commands)
            except CometMQError as error:
                error.add_note(f"to {case}")
                raise
            found[str(case)] = dict(zip(connections, map(verdict_of, answers), strict=True))
    finally:
        for connection in connections.values():
            await connection.close()
    return found


def _signed(case: Case, sender: Sender, credentials: Credentials | None) -> Command:
    command = Command(case.code, ext_fields=dict(case.fields), body=case.body_of(sender))
    if credentials is not None:
        command.ext_fields = signed_fields(command.ext_fields, command.body, command.version, credentials)
    return command


def _about(code: RequestCode, fields: dict[str, str], body: bodies.Body) -> Command:
    return Command(code, ext_fields=fields, body=bodies.encode(body, standard=True))


async def _answers(connections: Iterable[Connection], commands: Iterable[Command]) -> list[Command]:
    """Send a request by each connection, side by side; return the answers."""
    pairs = zip(connections, commands, strict=False)
    return await asyncio.gather(*(connection.request(command, PATIENCE_MS) for connection, command in pairs))


async def _accepted(connection: Connection, commands: Iterable[Command]) -> None:
    for answer in await _answers(repeat(connection), commands):
        assert answer.code == ResponseCode.SUCCESS, answer


@asynccontextmanager
async def _connected(address: str, credentials: Credentials) -> AsyncIterator[Connection]:
    connection = await Connection.open(address, timeout_ms=PATIENCE_MS, credentials=credentials)
    try:
        yield connection
    finally:
        await connection.close()
