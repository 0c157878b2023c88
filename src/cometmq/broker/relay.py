"""What an operator asks one client, by way of the broker that both are connected to.

The broker passes the request on, and the client's answer back. (RocketMQ: AdminBrokerProcessor.java,
callConsumer.)
"""

import asyncio
from itertools import count
from typing import Final, NamedTuple

from cometmq.broker.consumers import Consumers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.errors import FormatError
from cometmq.format.message_id import parse_offset_message_id
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import ConsumeDirectlyHeader, RunningInfoHeader, parse

ANSWER_S_MAX: Final = 10.0
"""How long a client may take to answer."""
OPAQUE_MAX: Final = 0x7FFF_FFFF


class _Asked(NamedTuple):
    """A request that was passed on, by whom it was asked, and whom."""

    asker: Session
    command: Command
    client_id: str
    timer: asyncio.TimerHandle


class Relay:
    """Passes requests to members of consumer groups, and their answers back."""

    def __init__(
        self, consumers: Consumers[Session], store: MessageStore, reads: Reads, *, broker_name: str
    ) -> None:
        self._consumers = consumers
        self._store = store
        self._reads = reads
        self._broker_name = broker_name
        self._opaque = count()
        self._asked: dict[tuple[Session, int], _Asked] = {}

    def running_info(self, session: Session, command: Command) -> None:
        """GET_CONSUMER_RUNNING_INFO: how is it doing."""
        header = parse(RunningInfoHeader, command.ext_fields)
        self._pass_on(session, command, header.consumer_group, header.client_id, b"")

    def consume_directly(self, session: Session, command: Command) -> Command | None:
        """CONSUME_MESSAGE_DIRECTLY: handle this message now, whatever the group has committed."""
        header = parse(ConsumeDirectlyHeader, command.ext_fields)
        group, client_id = header.consumer_group, header.client_id or ""
        self._member(group, client_id)
        try:
            where = parse_offset_message_id(header.message_id or "")
        except FormatError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None

        def make(record: bytes | None) -> None:
            if record is None:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {where.physical_offset}"
                )
            self._pass_on(session, command, group, client_id, record)

        return self._reads.answer(session, command, self._store.readings.record(where.physical_offset), make)

    def answered(self, session: Session, answer: Command) -> None:
        """Pass an answer back; one that nobody waits for any more is dropped."""
        if (asked := self._asked.pop((session, answer.opaque), None)) is not None:
            asked.timer.cancel()
            back = response(asked.command, answer.code, answer.remark, answer.ext_fields, answer.body)
            asked.asker.send(back)

    def closed(self, session: Session) -> None:
        """Tell those who wait for a client that is gone."""
        for key in [key for key in self._asked if key[0] is session]:
            self._fail(key, ResponseCode.SYSTEM_ERROR, "is gone: it closed its connection")

    def _pass_on(self, session: Session, command: Command, group: str, client_id: str, body: bytes) -> None:
        member = self._member(group, client_id)
        opaque = next(self._opaque) & OPAQUE_MAX
        timer = asyncio.get_running_loop().call_later(ANSWER_S_MAX, self._expire, (member, opaque))
        self._asked[member, opaque] = _Asked(session, command, client_id, timer)
        named = command.ext_fields | {"brokerName": self._broker_name}
        member.send(Command(command.code, opaque, ext_fields=named, body=body))

    def _member(self, group: str, client_id: str) -> Session:
        known = self._consumers.find(group)
        for session, member in known.members.items() if known is not None else ():
            if member.client_id == client_id:
                return session
        raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")

    def _expire(self, key: tuple[Session, int]) -> None:
        self._fail(key, ResponseCode.CONSUME_MSG_TIMEOUT, f"has not answered within {ANSWER_S_MAX:.0f} s")

    def _fail(self, key: tuple[Session, int], code: ResponseCode, why: str) -> None:
        asked = self._asked.pop(key)
        asked.timer.cancel()
        asked.asker.send(response(asked.command, code, f"consumer {asked.client_id} {why}"))
