import msgspec
import pytest
from tests.kit.request_bodies import BODIES, CLUSTER, GROUP, TOPIC, fields_with_names

from cometmq.access.decision import Permission
from cometmq.access.needs import NAMELESS, Needs
from cometmq.wire import bodies
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import NoFields
from cometmq.wire.requests import TO_BROKERS, TO_NAME_SERVERS, Action, Resource

TABLE = TO_NAME_SERVERS | TO_BROKERS


def needs() -> Needs:
    return Needs(TABLE, CLUSTER, lambda body_type, command: bodies.decode(body_type, command.body))


def command(code: RequestCode, topic: str = TOPIC) -> Command:
    request = TABLE[code]
    body = bodies.encode(BODIES[request.body], standard=True) if request.body in BODIES else b""
    return Command(code, ext_fields=fields_with_names(request, topic), body=body)


@pytest.mark.parametrize("code", TABLE, ids=lambda code: code.name)
def test_each_request_needs_what_its_line_in_the_table_says(code: RequestCode) -> None:
    """So no code is unchecked because nobody thought of it: one without permissions fails here."""
    access = TABLE[code].access
    assert access
    found = needs().of(command(code))
    names = {Resource.TOPIC: TOPIC, Resource.GROUP: GROUP, Resource.CLUSTER: CLUSTER}
    assert set(found) == {Permission(one.resource, names[one.resource], one.actions) for one in access}


WITH_FIELDS = [
    code for code, request in TABLE.items() if request.body is None and request.header is not NoFields
]


@pytest.mark.parametrize("code", WITH_FIELDS, ids=lambda code: code.name)
def test_a_request_that_names_nothing_needs_the_cluster_or_is_listed(code: RequestCode) -> None:
    request = TABLE[code]
    fields = {
        field.encode_name: "true" if field.type is bool else "0"
        for field in msgspec.structs.fields(request.header)
        if field.required and not ("group" in field.name or field.name == "topic")
    }
    fields |= {
        field.encode_name: ""
        for field in msgspec.structs.fields(request.header)
        if field.required and ("group" in field.name or field.name == "topic")
    }
    found = needs().of(Command(code, ext_fields=fields))
    if code in NAMELESS:
        assert not found
    else:
        assert found
        assert all(need.kind is Resource.CLUSTER for need in found)


def test_a_heartbeat_without_consumers_needs_nothing() -> None:
    body = bodies.encode(bodies.Heartbeat("c"), standard=True)
    assert needs().of(Command(RequestCode.HEART_BEAT, body=body)) == ()


def test_a_groups_own_retry_topics_need_the_group_alone() -> None:
    found = needs().of(command(RequestCode.PULL_MESSAGE, f"%RETRY%{GROUP}"))
    assert found == (Permission(Resource.GROUP, GROUP, (Action.SUB,)),)
    for retry in (f"%RETRY%{GROUP}_{TOPIC}", f"%RETRY%{GROUP}+{TOPIC}"):
        found = needs().of(command(RequestCode.ACK_MESSAGE, retry))
        assert found == needs().of(command(RequestCode.ACK_MESSAGE))


def test_a_retry_topic_that_may_be_anothers_needs_that_group() -> None:
    anothers = Permission(Resource.GROUP, f"{GROUP}_{TOPIC}", (Action.SUB,))
    for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE):
        assert anothers in needs().of(command(code, f"%RETRY%{anothers.name}"))
    view = command(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    assert needs().of_stored(view, f"%RETRY%{anothers.name}") == (anothers,)


def test_anothers_retry_topic_needs_that_group() -> None:
    found = needs().of(command(RequestCode.PULL_MESSAGE, "%RETRY%other"))
    assert Permission(Resource.GROUP, "other", (Action.SUB,)) in found


def test_to_send_to_a_retry_topic_is_to_consume_in_its_group() -> None:
    found = needs().of(command(RequestCode.SEND_MESSAGE_V2, f"%RETRY%{GROUP}"))
    assert found == (Permission(Resource.GROUP, GROUP, (Action.SUB,)),)


def test_dead_letters_are_a_topic() -> None:
    found = needs().of(command(RequestCode.GET_MAX_OFFSET, f"%DLQ%{GROUP}"))
    assert found == (Permission(Resource.TOPIC, f"%DLQ%{GROUP}", (Action.GET,)),)


def test_each_topic_of_a_list_is_needed() -> None:
    found = needs().of(
        Command(RequestCode.GET_CONSUME_STATS, ext_fields={"consumerGroup": GROUP, "topicList": "a;b;"})
    )
    assert {need.name for need in found} == {GROUP, "a", "b"}


def test_an_unknown_code_needs_nothing_since_nobody_handles_it() -> None:
    assert needs().of(Command(9_999)) == ()
    assert needs().key(Command(9_999)) is None


def test_requests_with_equal_keys_need_the_same() -> None:
    for code in TABLE:
        sent = command(code)
        key = needs().key(sent)
        if key is not None:
            sent.ext_fields["unknown"] = "x"
            assert needs().key(sent) == key
            other = command(code, "elsewhere")
            assert (needs().key(other) == key) == (needs().of(other) == needs().of(sent)), code
