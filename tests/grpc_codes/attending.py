"""Calls that clients of each type make: routes, assignments, settings, heartbeats, and the last one."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.grpc_codes.case import (
    NORMAL,
    UNKNOWN,
    UNSERVED,
    WRITE_ONLY,
    Caller,
    Case,
    World,
    resource,
    with_illegal_groups,
    with_illegal_topics,
    without_client_id,
)
from tests.kit.grpc_clients import consumer, producer

from cometmq.proxy import messaging_pb2 as pb

ENDPOINTS = pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host="127.0.0.1", port=8081)])


def cases() -> Iterator[Case]:
    """Iterate over the calls."""
    yield from _routes()
    yield from _assignments()
    yield from _settings()
    yield from _beats()
    yield from without_client_id()
    request = pb.SyncLiteSubscriptionRequest(topic=resource(NORMAL), lite_topic_set=["l"])
    yield Case(UNSERVED, "of a topic of normal messages", "gRPC UNIMPLEMENTED", request)


def _routes() -> Iterator[Case]:
    def route(topic: str) -> pb.QueryRouteRequest:
        return pb.QueryRouteRequest(topic=resource(topic), endpoints=ENDPOINTS)

    yield Case("QueryRoute", "a topic", "OK", route(NORMAL))
    yield Case("QueryRoute", "an unknown topic", "TOPIC_NOT_FOUND", route(UNKNOWN))
    yield from with_illegal_topics("QueryRoute", lambda _, topic: route(topic))


def _assignments() -> Iterator[Case]:
    def assign(topic: str, group: str) -> pb.QueryAssignmentRequest:
        return pb.QueryAssignmentRequest(topic=resource(topic), group=resource(group), endpoints=ENDPOINTS)

    def case(note: str, outcome: str, topic: str, group: Callable[[World], str]) -> Case:
        return Case("QueryAssignment", note, outcome, lambda world: assign(topic, group(world)))

    yield case("a topic and a group", "OK", NORMAL, lambda world: world.group)
    yield case("an ordered group", "OK", NORMAL, lambda world: world.ordered_group)
    yield case("an unknown group", "OK", NORMAL, lambda _: "CodesUnknownGroup")
    yield case("an unknown topic", "TOPIC_NOT_FOUND", UNKNOWN, lambda world: world.group)
    yield case("a topic that cannot be read", "FORBIDDEN", WRITE_ONLY, lambda world: world.group)
    yield from with_illegal_topics("QueryAssignment", lambda world, topic: assign(topic, world.group))
    yield from with_illegal_groups("QueryAssignment", lambda _, group: assign(NORMAL, group))


def _settings() -> Iterator[Case]:
    refused = "gRPC INVALID_ARGUMENT"

    def settings(note: str, outcome: str, made: pb.Settings | Callable[[World], pb.Settings]) -> Case:
        def request(world: World) -> Any:
            return pb.TelemetryCommand(settings=made(world) if callable(made) else made)

        return Case("Telemetry", note, outcome, request, Caller.NEWCOMER)

    yield settings("a producer's settings", "OK", producer(NORMAL))
    yield settings("a simple consumer's", "OK", lambda world: consumer(world.group, NORMAL))
    for kind, outcome in (
        (pb.PUSH_CONSUMER, "OK"),
        (pb.PULL_CONSUMER, refused),
        (pb.LITE_SIMPLE_CONSUMER, refused),
    ):
        name = pb.ClientType.Name(kind).lower().replace("_", " ")
        yield settings(f"a {name}'s", outcome, _consumer_of_kind(kind))
    yield settings("settings of neither", refused, pb.Settings())
    yield settings("a consumer's of an unknown group", "OK", consumer("CodesUnknownGroup", NORMAL))
    yield settings("a producer's of an illegal topic", refused, producer("a.b"))
    yield settings("a consumer's of an illegal topic", refused, lambda world: consumer(world.group, "a.b"))
    yield settings("a consumer's of an illegal group", refused, consumer("a.b", NORMAL))


def _consumer_of_kind(kind: pb.ClientType) -> Callable[[World], pb.Settings]:
    return lambda world: consumer(world.group, NORMAL, kind)


def _beats() -> Iterator[Case]:
    unknown = "UNRECOGNIZED_CLIENT_TYPE"

    def beat(note: str, outcome: str, kind: pb.ClientType, caller: Caller) -> Case:
        def request(world: World) -> Any:
            is_consumer = caller is not Caller.PRODUCER
            return pb.HeartbeatRequest(client_type=kind, group=resource(world.group) if is_consumer else None)

        return Case("Heartbeat", note, outcome, request, caller)

    yield beat("of a producer", "OK", pb.PRODUCER, Caller.PRODUCER)
    yield beat("of a consumer", "OK", pb.SIMPLE_CONSUMER, Caller.CONSUMER)
    yield beat("of a client without settings", unknown, pb.SIMPLE_CONSUMER, Caller.STRANGER)
    yield beat("of a pull consumer", unknown, pb.PULL_CONSUMER, Caller.CONSUMER)
    last = pb.NotifyClientTerminationRequest()
    yield Case("NotifyClientTermination", "of a producer", "OK", last, Caller.LEAVER)
    yield Case("NotifyClientTermination", "of a client without settings", unknown, last, Caller.STRANGER)
