from cometmq.wire.codes import RequestCode
from cometmq.wire.controller_requests import TO_CONTROLLERS
from cometmq.wire.headers import Header
from cometmq.wire.requests import REQUESTS, Resource


def test_every_request_has_its_headers_and_needs_the_cluster() -> None:
    for code, request in TO_CONTROLLERS.items():
        for header in (request.header, request.answer):
            assert issubclass(header, Header), code.name
        assert {access.resource for access in request.access} == {Resource.CLUSTER}, code.name


def test_only_heartbeats_go_to_controllers_and_to_servers_of_cometmq() -> None:
    assert TO_CONTROLLERS.keys() & REQUESTS.keys() == {RequestCode.BROKER_HEARTBEAT}
    assert TO_CONTROLLERS[RequestCode.BROKER_HEARTBEAT] == REQUESTS[RequestCode.BROKER_HEARTBEAT]
