"""The table of requests."""

from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import Header, NoFields
from cometmq.wire.requests import REQUESTS, SENDS, TO_BROKERS, TO_CLIENTS, TO_NAME_SERVERS, Resource


def test_every_request_has_the_headers_of_its_question_and_its_answer() -> None:
    for code, request in REQUESTS.items():
        assert issubclass(request.header, Header), code.name
        assert issubclass(request.answer, Header), code.name


def test_a_request_goes_either_to_brokers_or_to_name_servers() -> None:
    assert TO_BROKERS.keys().isdisjoint(TO_NAME_SERVERS)
    assert TO_CLIENTS.keys().isdisjoint(TO_NAME_SERVERS)


def test_nothing_that_a_server_answers_needs_no_permission() -> None:
    for code, request in (TO_BROKERS | TO_NAME_SERVERS).items():
        assert request.access, code.name


def test_a_request_about_a_topic_or_a_group_names_one() -> None:
    for code, request in TO_BROKERS.items():
        resources = {access.resource for access in request.access}
        if resources != {Resource.CLUSTER} and request.header is NoFields:
            assert request.body is not None, code.name


def test_sends_have_the_headers_that_the_table_has_for_them() -> None:
    assert all(REQUESTS[RequestCode(code)].header is header for code, header in SENDS.items())


def test_an_access_reads_like_rocketmqs() -> None:
    needed = TO_BROKERS[RequestCode.QUERY_CONSUMER_OFFSET].access
    assert [str(access) for access in needed] == ["Topic Sub|Get", "Group Sub|Get"]
