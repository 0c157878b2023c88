"""The broker of a FastStream application: it connects subscribers and publishers to RocketMQ."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final, TypedDict, Unpack

from fast_depends import Provider, dependency_provider
from fast_depends.dependencies import Dependant
from fast_depends.library.serializer import SerializerProto
from faststream._internal.basic_types import LoggerProto
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.logger import DefaultLoggerStorage
from faststream._internal.logger.logging import get_broker_logger
from faststream._internal.logger.state import make_logger_state
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
from faststream.exceptions import SetupError
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.security import BaseSecurity, SASLPlaintext
from faststream.specification.schema import BrokerSpec
from faststream.specification.schema.extra import Tag, TagDict

from cometmq.client.consumer.consumer import STOP_TIMEOUT_MS
from cometmq.client.handling.handle_hooks import HandleHook
from cometmq.client.producer.producer import Producer
from cometmq.client.producer.send_result import SendResult
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS
from cometmq.errors import NetworkError, NoRoute
from cometmq.faststream.command import REQUEST_TIMEOUT_S, RocketMQPublishCommand, SendOptions
from cometmq.faststream.config import RocketMQBrokerConfig, check_names
from cometmq.faststream.groups import Connecting, GroupConsumers
from cometmq.faststream.message import Delivery, RocketMQMessage
from cometmq.faststream.producer import MessageProducer
from cometmq.faststream.registrator import RocketMQRegistrator
from cometmq.logs import escape
from cometmq.net.tls.client import TLS
from cometmq.wire.acl import Credentials

PRODUCER_GROUP: Final = "FASTSTREAM_PRODUCER"
GRACEFUL_S: Final = 15.0
START_TIMEOUT_S: Final = 30.0
ANY_TOPIC: Final = "TBW102"
"""A topic that brokers have by themselves: the route of the topics that they create."""

SHOWN_OF_AN_ID: Final = 10
SHORT_ID: Final = f"%(message_id)-{SHOWN_OF_AN_ID}s"


class BrokerOptions(TypedDict, total=False):
    """The options of each FastStream broker, with FastStream's meanings and defaults.

    Two are ours: ``traced`` says whether what is published and handled are spans of OpenTelemetry (extra
    ``otel``), ``heartbeat_interval`` how many seconds, at least 0.1, are between heartbeats of its clients.
    """

    traced: bool
    heartbeat_interval: float
    graceful_timeout: float | None
    ack_policy: AckPolicy
    dependencies: Sequence[Dependant]
    middlewares: Sequence[BrokerMiddleware[Any, Any]]
    routers: Iterable[RocketMQRegistrator]
    parser: CustomCallable | None
    decoder: CustomCallable | None
    codec: CodecProto | None
    id_generator: IdGenerator
    specification_url: str | None
    protocol: str | None
    protocol_version: str | None
    description: str | None
    tags: Iterable[Tag | TagDict]
    logger: LoggerProto | None
    log_level: int
    apply_types: bool
    serializer: SerializerProto | None
    provider: Provider | None
    context: ContextRepo | None


class RocketMQBroker(RocketMQRegistrator, BrokerUsecase[Delivery, Producer, RocketMQBrokerConfig]):
    """Connects an application to RocketMQ.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: the consumer group of subscribers that name none.
        producer_group: the group of its producer.
        credentials: sign the requests; None for those of ``security``, or of the environment.
        tls: how to connect by TLS; None to ask ``security``.
        security: the same in FastStream's words, shown in AsyncAPI: SASLPlaintext has the credentials.
        start_timeout: seconds that a start waits for a name server; None for no limit.
        options: see ``BrokerOptions``.

    Raises:
        SettingsError: an address or a group cannot be used.
        SetupError: ``security`` is of a kind that RocketMQ does not have.
        TypeError: an option is not known.
        MissingExtra: ``traced`` needs the extra ``otel``.
    """

    def __init__(
        self,
        name_servers: str = "127.0.0.1:9876",
        *,
        group: str = "",
        producer_group: str = PRODUCER_GROUP,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
        security: BaseSecurity | None = None,
        start_timeout: float | None = START_TIMEOUT_S,
        **options: Unpack[BrokerOptions],
    ) -> None:
        check_names(options, BrokerOptions, "a broker")
        graceful_s = options.get("graceful_timeout", GRACEFUL_S)
        self._new_producer, hooks = _traced() if options.get("traced") else (Producer, ())
        connecting = Connecting(
            name_servers,
            credentials or _credentials_of(security),
            _tls_of(security) if tls is None else tls,
            None if start_timeout is None else int(start_timeout * 1000),
            STOP_TIMEOUT_MS if graceful_s is None else int(graceful_s * 1000),
            hooks,
            int(options.get("heartbeat_interval", HEARTBEAT_INTERVAL_MS / 1000) * 1000),
        )
        super().__init__(
            config=_config_of(self, group, connecting, options),
            routers=options.get("routers", ()),
            specification=BrokerSpec(
                url=[options.get("specification_url") or name_servers],
                protocol=options.get("protocol") or "rocketmq",
                protocol_version=options.get("protocol_version") or "5",
                description=options.get("description"),
                tags=options.get("tags", ()),
                security=security,
            ),
            name_servers=name_servers,
            group=producer_group,
            credentials=connecting.credentials,
            tls=connecting.tls,
            heartbeat_interval_ms=connecting.heartbeat_interval_ms,
        )

    async def _connect(self) -> Producer:
        producer = await self._new_producer(**self._connection_kwargs).__aenter__()
        self._sender.connect(producer, self.config.fd_config._serializer)  # noqa: SLF001 as FastStream's brokers do
        return producer

    @property
    def _sender(self) -> MessageProducer:
        producer = self.config.producer
        assert isinstance(producer, MessageProducer)
        return producer

    async def start(self) -> None:
        """Connect, and start to consume. Raises like ``Consumer.start``."""
        await self.connect()
        await super().start()
        await self.config.broker_config.consumers.start()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Wait for the running handlers, commit, leave the groups, and close the producer."""
        try:
            await self.config.broker_config.consumers.stop()  # first: subscribers still take what runs
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            producer, self._connection = self._connection, None
            if producer is not None:
                self._sender.connect(None, None)
                await producer.__aexit__(None, None, None)

    async def ping(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 FastStream's name
        """Return whether a name server answers within ``timeout`` seconds."""
        if self._connection is None:
            return False
        try:
            async with asyncio.timeout(timeout):
                await self._connection.queues(ANY_TOPIC)
        except NoRoute:
            return True  # it answers: its brokers create no topics by themselves
        except (NetworkError, TimeoutError):
            return False
        return True

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> SendResult:
        """Publish a message and wait until it is stored. Raises like ``Producer.send``."""
        cmd = self._command(message, topic=topic, headers=headers, correlation_id=correlation_id, **options)
        result: SendResult = await self._basic_publish(cmd, producer=self.config.producer)
        return result

    async def publish_batch(  # type: ignore[override] # each broker has options of its own
        self,
        *messages: Any,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> list[SendResult]:
        """Publish many messages in few requests, and wait until all are stored.

        Raises like ``Producer.send_many``.
        """
        cmd = self._command(*messages, topic=topic, headers=headers, correlation_id=correlation_id, **options)
        results: list[SendResult] = await self._basic_publish_batch(cmd, producer=self.config.producer)
        return results

    async def request(  # type: ignore[override] # each broker has options of its own
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float = REQUEST_TIMEOUT_S,  # noqa: ASYNC109 FastStream's name
        **options: Unpack[SendOptions],
    ) -> RocketMQMessage:
        """Publish a message and wait for the reply of its handler. Raises like ``Producer.request``."""
        cmd = self._command(message, topic=topic, headers=headers, correlation_id=correlation_id, **options)
        cmd.publish_type, cmd.timeout_s = PublishType.REQUEST, timeout
        reply: RocketMQMessage = await self._basic_request(cmd, producer=self.config.producer)
        return reply

    def _command(self, *messages: Any, **options: Any) -> RocketMQPublishCommand:
        cmd = RocketMQPublishCommand(*messages, **options)
        cmd.correlation_id = cmd.correlation_id or self.config.id_generator()
        return cmd


def _config_of(
    broker: RocketMQBroker, group: str, connecting: Connecting, options: BrokerOptions
) -> RocketMQBrokerConfig:
    """Build what the broker's parts share."""
    parser, decoder, codec = options.get("parser"), options.get("decoder"), options.get("codec")
    return RocketMQBrokerConfig(
        group=group,
        consumers=GroupConsumers(connecting),
        producer=MessageProducer(parser, decoder, codec),
        broker_parser=parser,
        broker_decoder=decoder,
        broker_codec=codec,
        broker_middlewares=options.get("middlewares", ()),
        broker_dependencies=options.get("dependencies", ()),
        graceful_timeout=options.get("graceful_timeout", GRACEFUL_S),
        ack_policy=options.get("ack_policy", EMPTY),
        id_generator=options.get("id_generator", gen_cor_id),
        logger=make_logger_state(
            options.get("logger", EMPTY), options.get("log_level", logging.INFO), LogFormat
        ),
        fd_config=FastDependsConfig(
            use_fastdepends=options.get("apply_types", True),
            serializer=options.get("serializer", EMPTY),
            provider=options.get("provider") or dependency_provider,
            context=options.get("context") or ContextRepo(),
        ),
        extra_context={"broker": broker},
    )


def _traced() -> tuple[type[Producer], tuple[HandleHook, ...]]:
    """Return the class of producers, and the hooks of consumers, that make spans. Raises MissingExtra."""
    from cometmq import otel  # noqa: PLC0415 it needs an extra

    return otel.TracedProducer, (otel.ProcessSpans(),)


def _credentials_of(security: BaseSecurity | None) -> Credentials | None:
    if isinstance(security, SASLPlaintext):
        return Credentials(security.username, security.password)
    if security is not None and type(security) is not BaseSecurity:
        raise SetupError(f"RocketMQ has no {type(security).__name__}: use SASLPlaintext, or credentials=")
    return None


def _tls_of(security: BaseSecurity | None) -> bool | None:
    if security is not None and security.ssl_context is not None:
        raise SetupError("an ssl_context cannot be passed on: give tls=TLS(ca_file=...) to the broker")
    return security.use_ssl or None if security is not None else None


class LogFormat(DefaultLoggerStorage):
    """The format of log lines, with topic and group, in columns as wide as the longest name."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 4, "group": 4}

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Widen the columns for a subscriber."""
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        """Return the logger; it is created once."""
        if (logger := self._get_logger_ref()) is None:
            columns = " | ".join(f"%({name})-{width}s" for name, width in self._widths.items())
            logger = get_broker_logger(
                name="rocketmq",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=SHOWN_OF_AN_ID,
                fmt=f"%(asctime)s %(levelname)-8s - {columns} | {SHORT_ID} - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            logger.addFilter(escape)
            self._logger_ref.add(logger)
        return logger
