"""The settings of a name server, with RocketMQ's names, read from TOML or from its ``namesrv.conf``.

RocketMQ: ``NamesrvConfig``, ``NettyServerConfig``. What becomes of those that are not honoured is as for a
broker (``cometmq.settings.foreign``).
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from cometmq.logs import get_logger
from cometmq.metrics.limits import LIMITS as ENDPOINT_LIMITS
from cometmq.metrics.limits import EndpointLimits
from cometmq.net.settings_file import read_file
from cometmq.net.tls.settings import TlsSettings
from cometmq.settings import foreign
from cometmq.settings.foreign import Differing
from cometmq.settings.values import SettingsGroup, flat_fields, settings_from
from cometmq.wire.bodies import BodyLimits
from cometmq.wire.bodies.body import LIMITS

BodySize = Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)]

_log = get_logger(__name__)


class NameServerSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """The settings of a name server.

    Attributes:
        bind_address: the address to listen at.
        listen_port: the port to listen at; 0 for any free one.
        kv_config_path: the file of operators' texts; none keeps them in memory. RocketMQ's default is
            ``namesrv/kvConfig.json`` in the user's home.
        order_message_enable: whether routes contain the order of queues.
        support_acting_master: whether readers find a slave in the place of a master that is gone.
        server_channel_max_idle_time_seconds: silence after which a connection is closed, s.
        registration_topics_max: most topics that a broker may register uncompressed. Not RocketMQ's, nor is
            what follows.
        topic_queues_max: most queues of a topic on one broker, to read and to write each.
        route_queues_max: most queues of a topic on all brokers.
        route_topics_max: most topics of all brokers; one that several have counts for each.
        request_body_bytes_max: most bytes of any other request's body.
        nonstandard_body_bytes_max: most bytes of a body that is not standard JSON.
        metrics_connections_max: most connections at the port of metrics; one more closes the oldest that
            waits for its peer, or is closed itself if there is none.
        metrics_waiting_max: such connections of an IP address on which no whole request has come, or whose
            answer was not taken, before the oldest is closed; 0 for any number.
        metrics_scrapes_max: most scrapes that wait at a time; of more the oldest of one address is closed.
        metrics_request_timeout_ms: ms that a whole request may take, and that taking its answer may.
        insecure: whether it may listen where other machines reach it without users.
    """

    tls: TlsSettings = TlsSettings()
    bind_address: str = "127.0.0.1"
    listen_port: Annotated[int, Meta(ge=0, le=65535)] = 9876
    kv_config_path: str = ""
    order_message_enable: bool = False
    support_acting_master: bool = False
    server_channel_max_idle_time_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 120
    registration_topics_max: Annotated[int, Meta(ge=1)] = LIMITS.registration_topics
    topic_queues_max: Annotated[int, Meta(ge=1, le=LIMITS.topic_queues)] = LIMITS.topic_queues
    route_queues_max: Annotated[int, Meta(ge=1, le=LIMITS.route_queues)] = LIMITS.route_queues
    route_topics_max: Annotated[int, Meta(ge=1)] = LIMITS.route_topics
    request_body_bytes_max: BodySize = LIMITS.usual_bytes
    nonstandard_body_bytes_max: BodySize = LIMITS.nonstandard_bytes
    metrics_connections_max: Annotated[int, Meta(ge=1, le=65_536)] = ENDPOINT_LIMITS.connections_max
    metrics_waiting_max: Annotated[int, Meta(ge=0)] = ENDPOINT_LIMITS.waiting_max
    metrics_scrapes_max: Annotated[int, Meta(ge=1, le=1_024)] = ENDPOINT_LIMITS.scrapes_max
    metrics_request_timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = ENDPOINT_LIMITS.request_ms_max
    insecure: bool = False

    @property
    def body_limits(self) -> BodyLimits:
        """The limits of requests' bodies."""
        return LIMITS._replace(
            registration_topics=self.registration_topics_max,
            topic_queues=self.topic_queues_max,
            route_queues=self.route_queues_max,
            route_topics=self.route_topics_max,
            usual_bytes=self.request_body_bytes_max,
            nonstandard_bytes=self.nonstandard_body_bytes_max,
        )

    @property
    def metrics_limits(self) -> EndpointLimits:
        """The limits of the port of metrics."""
        return EndpointLimits(
            self.metrics_connections_max,
            self.metrics_waiting_max,
            self.metrics_scrapes_max,
            self.metrics_request_timeout_ms,
            are_settings=True,
        )


DIFFERING: Final[Mapping[str, Differing]] = {
    "clusterTest": Differing("false", "topics that are not here are not looked up elsewhere"),
    "deleteTopicWithBrokerRegistration": Differing("false", "a topic stays until its broker unregisters it"),
    "enableAllTopicList": Differing("true", "all topics are listed for those who may"),
    "enableTopicList": Differing("true", "topics are listed for those who may"),
    "needWaitForService": Differing("false", "routes are answered at once"),
    "notifyMinBrokerIdChanged": Differing(
        "false", "brokers are not notified when a broker of their name is gone"
    ),
    "returnOrderTopicConfigToBroker": Differing(
        "true", "registrations are answered with the order of queues"
    ),
    "scanNotActiveBrokerInterval": Differing("5000", "silent brokers are looked for every 5 s"),
}
"""Settings with which RocketMQ's name server behaves otherwise, by name."""

WITHOUT_EFFECT: Final = frozenset(
    (
        *("clientRequestThreadPoolNums", "clientRequestThreadPoolQueueCapacity", "configBlackList"),
        *("configStorePath", "controllerDLegerGroup", "controllerDLegerSelfId", "controllerStorePath"),
        *("defaultThreadPoolNums", "defaultThreadPoolQueueCapacity", "enableShutdownGracefully"),
        *("productEnvName", "rocketmqHome", "serverAsyncSemaphoreValue", "serverCallbackExecutorThreads"),
        *("serverNettyWorkerGroupEnable", "serverOnewaySemaphoreValue", "serverPooledByteBufAllocatorEnable"),
        *("serverSelectorThreads", "serverSocketBacklog", "serverSocketRcvBufSize", "serverSocketSndBufSize"),
        *("serverWorkerThreads", "shutdownWaitTimeSeconds", "unRegisterBrokerQueueCapacity"),
        *("useEpollNativeSelector", "waitSecondsForService", "writeBufferHighWaterMark"),
        "writeBufferLowWaterMark",
    )
)
"""Names that RocketMQ's name server knows, and whose values nobody notices here."""


def load(
    path: Path | None, overrides: Mapping[str, Any], *, ignored: Collection[str] = ()
) -> NameServerSettings:
    """Read ``path`` (TOML by its suffix, else ``key=value`` lines), then apply ``overrides`` by name.

    Args:
        ignored: names of settings that do not stop the start, though what they say is not done.

    Raises SettingsError if the file cannot be read, or a setting in it cannot be used.
    """
    values = ({} if path is None else read_file(path)) | dict(overrides)
    foreign.check(values, ignored)
    names = {field.encode_name for field in flat_fields(NameServerSettings)}
    for note in foreign.notes_on(values, names, DIFFERING, WITHOUT_EFFECT):
        _log.warning("%s: %s", path, note)
    return settings_from(NameServerSettings, values)
