"""The requests of a name server and their answers.

RocketMQ: ``DefaultRequestProcessor.java``, ``ClientRequestProcessor.java`` (of the name server).
"""

from collections.abc import Callable, Generator, Hashable
from functools import partial
from typing import Any, Final

from msgspec import field

from cometmq.errors import FormatError
from cometmq.format.checksum import body_crc
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.namesrv.kv_config import ORDER_TOPIC_CONFIG, TEXTS_BYTES_MAX, KvConfig, WhenSaved, size_of
from cometmq.namesrv.routes import NAME_LENGTH_MAX, RouteTable
from cometmq.wire import bodies, settings_text
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode, ResponseCode, Version
from cometmq.wire.frame import Command, response
from cometmq.wire.requests import TO_NAME_SERVERS

Registering = Generator[Callable[[], bodies.Registration] | None, bodies.Registration | None, Command]
"""The steps of a registration: see ``NameServerRequests.register``."""

ORDER_SETTING: Final = "orderMessageEnable"
"""The setting whether a route contains the order of a topic's queues."""
SETTINGS_NAMESPACE: Final = "NAMESRV_SETTINGS"
"""The namespace of operators' texts with the settings that were changed; it is not RocketMQ's."""

ZLIB: Final = b"\x78"
"""The first byte of a zlib stream; JSON never begins with it."""
IN_LOOP_MAX: Final = 64 * 1024
"""Largest registration, in bytes, that is decoded in the event loop; larger ones are decoded in a thread."""
LEFT_OUT_SHOWN_MAX: Final = 10
"""Most topics that a line of the log names."""
UNIT_FLAG: Final = 1
UNIT_SUBSCRIPTION_FLAG: Final = 2

_log = get_logger(__name__)


class NameServerRequests:
    """The answers of a name server by request code.

    Args:
        routes: the registered brokers and topics.
        kv_config: operators' texts.
        clock: the time of registrations and heartbeats.
        settings: the settings, of which operators can change ORDER_SETTING.
        limits: the limits of request bodies.
    """

    def __init__(
        self,
        routes: RouteTable,
        kv_config: KvConfig,
        clock: Clock,
        settings: dict[str, str],
        *,
        limits: bodies.BodyLimits = bodies.LIMITS,
    ) -> None:
        self._limits = limits
        self._routes = routes
        self._kv_config = kv_config
        self._clock = clock
        self._settings = settings
        self._answers: dict[int, Callable[[Command, Any], Command]] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.QUERY_DATA_VERSION: self._data_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_subscription_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_subscription_only_topics,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._add_topic,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.GET_KV_CONFIG: self._get_config,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._config_table,
            RequestCode.GET_NAMESRV_CONFIG: self._get_settings,
        }

    def answer(self, command: Command) -> Command:
        """Answer one request, other than REGISTER_BROKER and those of ``change_config``.

        Raises:
            ProtocolError: a field is missing or ill-typed.
            FormatError: the body cannot be decoded, or a name is illegal.
        """
        answer = self._answers.get(command.code)
        if answer is None:
            remark = f" request type {command.code} not supported"
            return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        return answer(command, h.parse(TO_NAME_SERVERS[RequestCode(command.code)].header, command.ext_fields))

    def change_config(self, command: Command, when_saved: WhenSaved) -> Command | None:
        """Start the change of a request of CONFIG_CHANGES; return the response if it is refused.

        Raises ProtocolError, or FormatError for a body that is no settings.
        """
        if command.code == RequestCode.UPDATE_NAMESRV_CONFIG:
            return self._change_settings(command, when_saved)
        if command.code == RequestCode.PUT_KV_CONFIG:
            header = h.parse(h.PutConfigHeader, command.ext_fields)
            if header.namespace == ORDER_TOPIC_CONFIG and self._has_too_many_queues(header.value):
                remark = (
                    f"order {header.value[:80]!r}: at most {self._limits.route_queues} queues are possible "
                    "(routeQueuesMax)"
                )
                return response(command, ResponseCode.INVALID_PARAMETER, remark)
            size = self._kv_config.texts_bytes + size_of(header.namespace, header.key, header.value)
            if size > TEXTS_BYTES_MAX:
                remark = (
                    f"{header.key[:80]!r} in namespace {header.namespace[:80]!r}: all texts "
                    f"would have {size} bytes, at most {TEXTS_BYTES_MAX} are possible: "
                    "delete some first (DELETE_KV_CONFIG)"
                )
                return response(command, ResponseCode.INVALID_PARAMETER, remark)
            self._kv_config.put(header.namespace, header.key, header.value, when_saved)
        else:
            key = h.parse(h.ConfigKeyHeader, command.ext_fields)
            self._kv_config.delete(key.namespace, key.key, when_saved)
        return None

    # Registration of brokers.

    def register(self, command: Command, source: Hashable) -> Registering:
        """Answer REGISTER_BROKER, received over ``source``, in steps between which others are answered.

        It yields None, or a function to run in a thread, whose result must be sent. Raises like ``answer``.
        """
        header = h.parse(h.RegisterBrokerHeader, command.ext_fields)
        if header.body_crc and header.body_crc != body_crc(command.body):
            return response(command, ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = bodies.Registration()
        if command.body:
            # Java brokers with compressedRegister send the compressed form without the flag in the header.
            compressed = header.compressed or command.body.startswith(ZLIB)
            decode_all = partial(self._decode, command, compressed=compressed)
            body = decode_all() if len(command.body) <= IN_LOOP_MAX else ((yield decode_all) or body)
        registered = yield from self._routes.registering(header, body, source, self._clock.monotonic_ms())
        if registered is None:
            return response(command, ResponseCode.SYSTEM_ERROR, "register broker failed")
        if registered.new:
            where = (
                f"{header.broker_name} ({header.broker_id}) of {header.cluster_name} at {header.broker_addr}"
            )
            _log.info("broker %s registered with %d topics", where, len(body.table.topics))
        if registered.displaced is not None:
            moved = f"was at {registered.displaced}, and is at {header.broker_addr} from now on"
            _log.warning(
                "broker %s (%d) %s, as %s has registered it: if both are running they have the same name, "
                "or a stranger takes its place, which --users prevents",
                header.broker_name,
                header.broker_id,
                moved,
                source,
            )
        if left_out := registered.left_out:
            shown = "; ".join(left_out[:LEFT_OUT_SHOWN_MAX]) + "; …" * (len(left_out) > LEFT_OUT_SHOWN_MAX)
            _log.warning("broker %s: %d topics are left out: %s", header.broker_name, len(left_out), shown)
        return response(
            command,
            ext_fields=h.fields(
                h.RegisterBrokerResponseHeader(registered.ha_server_addr, registered.master_addr)
            ),
            body=self._kv_config.body(ORDER_TOPIC_CONFIG) or b"",
        )

    def _unregister(self, command: Command, header: h.BrokerHeader) -> Command:
        self._routes.unregister(header)
        _log.info("broker %.80r at %.80r unregistered", header.broker_name, header.broker_addr)
        return response(command)

    def _heartbeat(self, command: Command, header: h.BrokerHeartbeatHeader) -> Command:
        self._routes.heartbeat(header.cluster_name, header.broker_addr, self._clock.monotonic_ms())
        return response(command)

    def _data_version(self, command: Command, header: h.BrokerHeader) -> Command:
        theirs = self.decode_body(bodies.DataVersion, command) if command.body else None
        ours = self._routes.data_version(header.cluster_name, header.broker_addr)
        self._routes.heartbeat(header.cluster_name, header.broker_addr, self._clock.monotonic_ms())
        changed = h.QueryDataVersionResponseHeader(changed=ours is None or ours != theirs)
        return response(command, ext_fields=h.fields(changed), body=bodies.encode(ours) if ours else b"")

    # NameServerRequests of clients and brokers.

    def _route(self, command: Command, header: h.GetRouteHeader) -> Command:
        route = self._routes.route(header.topic)
        if route is None:
            return response(command, ResponseCode.TOPIC_NOT_EXIST, self._no_route(header.topic))
        if self._settings[ORDER_SETTING] == "true":
            route.order_conf = self._kv_config.get(ORDER_TOPIC_CONFIG, header.topic)
        standard = command.version >= Version.V4_9_4 or bool(header.standard_json_only)
        return response(command, body=bodies.encode(route, standard=standard))

    def _no_route(self, topic: str) -> str:
        shown = topic[:NAME_LENGTH_MAX]
        remark = f"No topic route info in name server for the topic: {shown}\n"
        count = len(self._routes.topics())
        if not count:
            return remark + "No topic is known here: no broker has registered yet."
        nearest = self._routes.nearest_topic(shown)
        hint = f"; did you mean {nearest}?" if nearest else "."
        return remark + f"{count} {'topic is' if count == 1 else 'topics are'} known here{hint}"

    def _cluster_info(self, command: Command, _: h.NoFields) -> Command:
        return response(command, body=bodies.encode(self._routes.cluster_info()))

    def _member_group(self, command: Command, header: h.BrokerMemberGroupHeader) -> Command:
        broker = self._routes.broker(header.broker_name)
        members = bodies.BrokerMembers(
            broker.addrs if broker else {}, header.broker_name, header.cluster_name
        )
        return response(command, body=bodies.encode(bodies.BrokerMemberGroup(members)))

    def _topics(self, command: Command, _: h.NoFields) -> Command:
        return _names(command, self._routes.topics())

    def _topics_of_cluster(self, command: Command, header: h.ClusterHeader) -> Command:
        return _names(command, self._routes.topics(header.cluster))

    def _system_topics(self, command: Command, _: h.NoFields) -> Command:
        info = self._routes.cluster_info()
        names = [name for cluster, brokers in info.clusters.items() for name in (cluster, *brokers)]
        addr = next((addr for broker in info.brokers.values() for addr in broker.addrs.values()), None)
        return _names(command, names, addr)

    def _unit_topics(self, command: Command, _: h.NoFields) -> Command:
        return _names(command, self._routes.topics_with_flags(wanted=UNIT_FLAG))

    def _unit_subscription_topics(self, command: Command, _: h.NoFields) -> Command:
        return _names(command, self._routes.topics_with_flags(wanted=UNIT_SUBSCRIPTION_FLAG))

    def _unit_subscription_only_topics(self, command: Command, _: h.NoFields) -> Command:
        topics = self._routes.topics_with_flags(wanted=UNIT_SUBSCRIPTION_FLAG, unwanted=UNIT_FLAG)
        return _names(command, topics)

    # Changes by operators.

    def _wipe_write_perm(self, command: Command, header: h.BrokerNameHeader) -> Command:
        name = header.broker_name
        count = self._routes.set_writable(name, writable=False)
        _log.info("broker %.80r: %d topics can no longer be written to", name, count)
        return response(command, ext_fields=h.fields(h.WipeWritePermResponseHeader(count)))

    def _add_write_perm(self, command: Command, header: h.BrokerNameHeader) -> Command:
        name = header.broker_name
        count = self._routes.set_writable(name, writable=True)
        _log.info("broker %.80r: %d topics can be written to again", name, count)
        return response(command, ext_fields=h.fields(h.AddWritePermResponseHeader(count)))

    def _add_topic(self, command: Command, header: h.TopicHeader) -> Command:
        queues = self.decode_body(_TopicQueues, command).queues if command.body else []
        if not self._routes.add_topic(header.topic, queues):
            _log.warning(
                "topic %s was not registered: the request names no broker, or an unknown one", header.topic
            )
        return response(command)

    def _delete_topic(self, command: Command, header: h.DeleteTopicInNamesrvHeader) -> Command:
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return response(command)

    def _get_config(self, command: Command, header: h.ConfigKeyHeader) -> Command:
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return response(command, ResponseCode.QUERY_NOT_FOUND, remark)
        return response(command, ext_fields=h.fields(h.GetConfigResponseHeader(value)))

    def _config_table(self, command: Command, header: h.NamespaceHeader) -> Command:
        namespace = header.namespace
        body = self._kv_config.body(namespace)
        if body is None:
            remark = f"No config item, Namespace: {namespace}"
            return response(command, ResponseCode.QUERY_NOT_FOUND, remark)
        return response(command, body=body)

    def _get_settings(self, command: Command, _: h.NoFields) -> Command:
        return response(command, body=settings_text.encode(self._settings))

    def _change_settings(self, command: Command, when_saved: WhenSaved) -> Command | None:
        """Change the only setting that can be changed while a name server runs; return a refusal.

        In RocketMQ this request could write any file (CVE-2023-37582).
        """
        if (size := len(command.body)) > self._limits.usual_bytes:
            remark = f"settings of {size} bytes: at most {self._limits.usual_bytes} are taken"
            return response(command, ResponseCode.INVALID_PARAMETER, remark)
        changes = settings_text.decode(command.body)
        for name, value in changes.items():
            if name != ORDER_SETTING:
                remark = (
                    f"{name[:80]} cannot be changed while the name server runs: restart it with another; "
                    f"{ORDER_SETTING} can"
                )
                return response(command, ResponseCode.NO_PERMISSION, remark)
            if value not in ("true", "false"):
                remark = f"setting {name} = {value[:80]!r}: must be true or false"
                return response(command, ResponseCode.INVALID_PARAMETER, remark)
        if not changes:
            return response(command)

        def apply(error: OSError | None) -> None:
            if error is None:
                self._settings[ORDER_SETTING] = changes[ORDER_SETTING]
            when_saved(error)

        self._kv_config.put(SETTINGS_NAMESPACE, ORDER_SETTING, changes[ORDER_SETTING], apply)
        return None

    def _has_too_many_queues(self, order: str) -> bool:
        """Check whether Java clients would create too many queues for an order, ``broker-a:4;broker-b:4``."""
        counts = (part.split(":")[1].strip().lstrip("+") for part in order.split(";") if ":" in part)
        numbers = (int(count[:10]) for count in counts if count[:10].isdecimal())
        return sum(numbers) > self._limits.route_queues

    # Bodies

    def decode_body(self, body_type: type[bodies.BodyType], command: Command) -> bodies.BodyType:
        """Decode a body of limited size. Raises FormatError."""
        size_max = self._limits.usual_bytes
        if len(command.body) > size_max:
            raise FormatError(
                f"the body of request {command.code} has {len(command.body)} bytes, the limit is {size_max} "
                "(requestBodyBytesMax): send less at once"
            )
        return bodies.decode(body_type, command.body, nonstandard_max=self._limits.nonstandard_bytes)

    def _decode(self, command: Command, *, compressed: bool) -> bodies.Registration:
        """Decode a registration, in any thread. Raises FormatError, also if it has too many topics.

        Only JSON is limited so: decoding it holds the interpreter lock.
        """
        count = 0 if compressed else bytes(command.body).count(b"{")
        if count > self._limits.registration_topics:
            raise FormatError(
                f"the registration has {count} JSON objects, the limit is {self._limits.registration_topics} "
                "(registrationTopicsMax): let the broker send compressed ones (compressedRegister)"
            )
        return bodies.registration.decode(command.body, compressed=compressed, version=command.version)


class _TopicQueues(bodies.Body):
    """The part of a route that REGISTER_TOPIC_IN_NAMESRV uses."""

    queues: list[bodies.QueueData] = field(default_factory=list, name="queueDatas")


def _names(command: Command, topics: list[str], broker_addr: str | None = None) -> Command:
    return response(command, body=bodies.encode(bodies.TopicNames(topics, broker_addr)))
