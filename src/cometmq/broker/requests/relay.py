"""Requests of operators that the broker forwards to one client, and whose answers it forwards back.

(RocketMQ: AdminBrokerProcessor.java, callConsumer.)
"""

from collections.abc import Callable
from functools import partial

from cometmq.broker.client_calls import ClientCalls, NoAnswer
from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.producers import ConnectedMember
from cometmq.errors import FormatError
from cometmq.format.message_id import parse_offset_message_id
from cometmq.logs import get_logger
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import encode
from cometmq.wire.bodies.stats import ConsumerStatus
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import ConsumeDirectlyHeader, RunningInfoHeader, fields
from cometmq.wire.headers.admin import ConsumerStatusHeader

_log = get_logger(__name__)


MaySend = Callable[[Session, ConnectedMember, Command, bytes], bool]


class Relay:
    """Forwards requests to members of consumer groups, and their answers back.

    Args:
        may_send: returns whether a member, by its connection, may be sent the record that a command names.
    """

    def __init__(
        self,
        consumers: Consumers[Session],
        store: MessageStore,
        reads: Reads,
        calls: ClientCalls,
        bodies: RequestBodies,
        *,
        broker_name: str,
        may_send: MaySend,
    ) -> None:
        self._consumers = consumers
        self._store = store
        self._reads = reads
        self._calls = calls
        self._bodies = bodies
        self._broker_name = broker_name
        self._may_send = may_send

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
        }

    def running_info(self, session: Session, command: Command, header: RunningInfoHeader) -> None:
        """GET_CONSUMER_RUNNING_INFO: forward it to a consumer."""
        group, client_id = header.consumer_group, header.client_id
        member = next(iter(self._members(group, client_id)))
        self._forward(session, command, member, client_id, b"")

    def consume_directly(
        self, session: Session, command: Command, header: ConsumeDirectlyHeader
    ) -> Command | None:
        """CONSUME_MESSAGE_DIRECTLY: forward it with a message, which the consumer handles at once."""
        group, client_id = header.consumer_group, header.client_id or ""
        self._members(group, client_id)
        try:
            where = parse_offset_message_id(header.message_id or "")
        except FormatError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None

        def make(record: bytes | None) -> None:
            if record is None:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {where.physical_offset}"
                )
            for member, known in self._members(group, client_id).items():
                if self._may_send(member, known, command, record):
                    self._forward(session, command, member, client_id, record)
                    return
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"The Consumer <{group}> <{client_id}> is of a user who may not receive the message: "
                "name another member, or allow its user Sub on the group and the message's topic",
            )

        return self._reads.answer(session, command, self._store.readings.record(where.physical_offset), make)

    def consumer_status(self, session: Session, command: Command, header: ConsumerStatusHeader) -> None:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: collect the offsets that members have consumed to.

        Members that do not answer, or not with offsets, are left out.
        """
        group = self._consumers.find(header.group)
        members = {
            member.client_id: channel
            for channel, member in (group.members.items() if group is not None else ())
            if not header.client_id or header.client_id == member.client_id
        }
        if not members:
            named = f" of id {header.client_id}" if header.client_id else ""
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{header.group}]{named}",
            )
        collected, waiting = ConsumerStatus(), set(members)

        def make(client_id: str, command: Command, answer: Command | NoAnswer) -> Command | None:
            waiting.discard(client_id)
            if isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS and answer.body:
                try:
                    offsets = self._bodies.decode(ConsumerStatus, answer, is_list=True).offsets
                except (FormatError, Refused) as error:
                    _log.warning("consumer %.80r has answered with no offsets: %s", client_id, error)
                else:
                    collected.members[client_id] = offsets
            return None if waiting else response(command, body=encode(collected))

        question = fields(ConsumerStatusHeader(header.topic, header.group))
        for client_id, member in members.items():
            request = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext_fields=question)
            self._calls.call(session, command, member, request, partial(make, client_id))

    def _forward(
        self, session: Session, command: Command, member: Session, client_id: str, body: bytes
    ) -> None:
        named = command.ext_fields | {"brokerName": self._broker_name}
        request = Command(command.code, ext_fields=named, body=body)
        self._calls.call(session, command, member, request, partial(_forwarded_answer, client_id))

    def _members(self, group: str, client_id: str) -> dict[Session, ConnectedMember]:
        """Return a group's members with a client id, which several users may have. Raises Refused."""
        known = self._consumers.find(group)
        members = {} if known is None else known.members
        found = {session: member for session, member in members.items() if member.client_id == client_id}
        if not found:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        return found


def _forwarded_answer(client_id: str, command: Command, answer: Command | NoAnswer) -> Command:
    if isinstance(answer, NoAnswer):
        return response(command, answer.code, f"consumer {client_id} {answer.why}")
    return response(command, answer.code, answer.remark, answer.ext_fields, answer.body)
