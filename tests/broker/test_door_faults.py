"""What the door answers when somebody who takes frames fails."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from tests.broker.desk import ROOT, USUAL, Desk, desk, json_frame, served_by
from tests.kernels.querying import BY_KEY

from cometmq.broker.door import Door
from cometmq.kernels.frames.fields import FrameKind
from cometmq.net.server import Session
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader

QUERY = RequestCode.QUERY_MESSAGE
SUCCESS, FAILED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR

pytestmark = pytest.mark.parametrize("compiled", [False, True])


def answers(made: Desk) -> list[tuple[int, int]]:
    """Return numbers and codes of all answers since the last call, in the order of the numbers."""
    got, made.wire.data = FrameReader().receive_data(made.wire.data), b""
    return sorted((one.opaque, one.code) for one in got)


def another(made: Desk) -> Session:
    """Return another connection, whose answers the desk gets, too."""
    session = Session(made.server.shared)
    session.connection_made(made.wire)  # type: ignore[arg-type]  # it is one as far as a session cares
    return session


def fail(*_: object) -> None:
    raise KeyError("a fault")


async def test_what_was_answered_before_a_taker_fails_is_not_answered_again(*, compiled: bool) -> None:
    with served_by(compiled=compiled), desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        takers: dict[FrameKind, Any] = dict(made.parts.bulk.takers)
        takers[FrameKind.QUERY] = SimpleNamespace(take=fail)
        made.server.bulk = Door(takers)
        other = another(made)
        made.wire.data = b""
        query = json_frame(BY_KEY | {"topic": "TopicA"}, 3, b"", code=QUERY)
        other.data_received(json_frame(USUAL, 1) + json_frame(USUAL, 2))
        made.read(query + json_frame(USUAL, 4))
        made.server.remove(other)
        assert answers(made) == [(1, SUCCESS), (2, SUCCESS), (3, FAILED), (4, FAILED)]


async def test_sends_that_could_not_be_stored_are_answered_once(*, compiled: bool) -> None:
    with served_by(compiled=compiled), desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        made.wire.data, end = b"", made.store.written_offset
        with patch.object(made.store.appending._log, "append_encoded", fail):
            made.read(json_frame(USUAL, 1) + json_frame(USUAL, 2))
        assert (answers(made), made.store.written_offset) == ([(1, FAILED), (2, FAILED)], end)
        made.read(json_frame(USUAL, 3))
        assert answers(made) == [(3, SUCCESS)]
