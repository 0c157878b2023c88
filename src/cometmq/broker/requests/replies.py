"""SEND_REPLY_MESSAGE and its V2: a reply to a request message, pushed to the producer of the request.

The response says whether the producer has accepted it. A copy is stored in the reply's topic in any case, for
people to read: it has no delay, its response does not wait for the disk, and a failure to store it is only
logged. (RocketMQ: ReplyMessageProcessor.java.)
"""

from functools import partial
from typing import Final

from cometmq.broker.client_calls import ClientCalls, NoAnswer
from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import code_of
from cometmq.broker.requests.additions import parse as parse_properties
from cometmq.broker.requests.targets import Targets
from cometmq.broker.state.producers import Producers
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.saved_entries import Change
from cometmq.errors import CometMQError, MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.host import host_text
from cometmq.format.message_id import offset_message_id
from cometmq.format.properties import PUSH_REPLY_TIME, REPLY_TO_CLIENT, TAGS
from cometmq.format.sys_flag import COMPRESSED, COMPRESSION_MASK
from cometmq.logs import get_logger
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PushReplyHeader, SendHeader, fields

NOT_STORED: Final = {"msgId": "0", "queueOffset": "0"}
"""Response fields of a reply without a stored copy: clients need them."""

_log = get_logger(__name__)


class ReplyRequests:
    """Pushes replies to the producers of requests, and stores copies of them.

    Args:
        constants: fields of each response, and properties that each reply gets.
        store_host: the broker's address as records hold it.
        stores: whether copies are stored.
    """

    def __init__(
        self,
        store: MessageStore,
        targets: Targets,
        producers: Producers[Session],
        calls: ClientCalls,
        rates: Rates,
        *,
        store_host: bytes,
        constants: dict[str, str],
        stores: bool,
    ) -> None:
        self._store = store
        self._targets = targets
        self._producers = producers
        self._calls = calls
        self._rates = rates
        self._clock = store.clock
        self._store_host = store_host
        self._constants = constants
        self.stores = stores

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.handle,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.handle,
        }

    def handle(self, session: Session, command: Command, header: SendHeader) -> Command | None:
        """SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2."""
        try:
            return self._handle(session, command, header)
        except CometMQError as error:
            self._rates.refused.total += 1
            return response(command, code_of(error), str(error), self._constants)

    def _handle(self, session: Session, command: Command, header: SendHeader) -> Command | None:
        """Check a reply, store its copy and push it. Raises CometMQError: see ``code_of``."""
        target = self._targets.find_or_create(header, command.version)
        queue_id = self._targets.queue_id(header.queue_id, target)
        size_max = self._store.settings.max_message_size
        if not 0 < len(command.body) <= size_max:
            raise MessageIllegal(
                f"the reply's body has {len(command.body)} bytes: send 1 to {size_max} (maxMessageSize)"
            )
        if target.creation is not None:
            self._handle_later(session, command, header, target.creation)
            return None
        named = parse_properties(header.properties) | self._constants
        message = NewMessage(
            target.topic,
            queue_id,
            command.body,
            properties.encode(named),
            header.born_time,
            session.born_host,
            self._store_host,
            named.get(TAGS),
            header.flag,
            header.sys_flag & (COMPRESSED | COMPRESSION_MASK),
            header.reconsume_times,
        )
        stored = self._store_copy(message) if self.stores else {}
        return self._push(session, command, header, named, {"queueId": str(queue_id)} | stored)

    def _handle_later(
        self, session: Session, command: Command, header: SendHeader, creation: Change[TopicConfig]
    ) -> None:
        """Handle a reply once its topic is published; refuse it if the disk refuses the topic."""

        def again() -> None:
            answer = self.handle(session, command, header)
            if answer is not None and not command.is_oneway:
                session.send(answer)

        def go_on(error: StoreNotWritable | None) -> None:
            if error is None:
                creation.when_known(partial(attempt, session, (command,), again))
                return
            self._rates.refused.total += 1
            if not command.is_oneway:
                session.send(response(command, code_of(error), str(error), self._constants))

        creation.when_saved(go_on)

    def _store_copy(self, message: NewMessage) -> dict[str, str]:
        """Store the copy; return the response fields of its place, none if it cannot be stored."""
        try:
            (appended,) = self._store.append([message])
        except (StoreNotWritable, MessageIllegal) as error:
            _log.warning("a reply is pushed, but not stored in topic %s: %s", message.topic, error)
            return {}
        self._rates.stored.total += 1
        self._rates.stored_bytes.total += appended.size
        message_id = offset_message_id(self._store_host, appended.physical_offset)
        return {"msgId": message_id, "queueOffset": str(appended.queue_offset)}

    def _push(
        self,
        session: Session,
        command: Command,
        header: SendHeader,
        named: dict[str, str],
        place: dict[str, str],
    ) -> Command | None:
        """Push a reply to the producer; return the response if there is no such producer. Raises Refused."""
        client_id = named.get(REPLY_TO_CLIENT)
        if client_id is None:
            return self._failure(command, place, f"reply message properties[{REPLY_TO_CLIENT}] is null")
        client = self._producers.find(client_id)
        if client is None:
            why = f"push reply message fail, channel of <{client_id}> not found."
            return self._failure(command, place, why)
        request = self._push_request(session, header, named, command.body)
        self._calls.call(session, command, client, request, partial(self._answer, client_id, place))
        return None

    def _push_request(
        self, session: Session, header: SendHeader, named: dict[str, str], body: bytes
    ) -> Command:
        now_ms = self._clock.now_ms()
        pushed = PushReplyHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_count=header.default_topic_queue_count,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_time=header.born_time,
            flag=header.flag,
            born_host=host_text(session.born_host),
            store_host=host_text(self._store_host),
            store_time=now_ms,
            properties=properties.text_of(named | {PUSH_REPLY_TIME: str(now_ms)}),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext_fields=fields(pushed), body=body)

    def _answer(
        self, client_id: str, place: dict[str, str], command: Command, answer: Command | NoAnswer
    ) -> Command:
        """Build the response to a reply: whether the producer has accepted it."""
        if isinstance(answer, NoAnswer):
            why = f"it {answer.why}"
        elif answer.code != ResponseCode.SUCCESS:
            why = answer.remark or f"code {answer.code}"
        else:
            return response(command, ext_fields=NOT_STORED | place | self._constants)
        return self._failure(command, place, f"push reply message to {client_id} fail: {why}")

    def _failure(self, command: Command, place: dict[str, str], why: str) -> Command:
        _log.info("a reply did not reach its producer: %s", why)
        stored = place if "msgId" in place else {}
        return response(command, ResponseCode.SYSTEM_ERROR, why, stored | self._constants)
