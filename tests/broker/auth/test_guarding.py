"""A broker whose requests must be signed and allowed, from end to end: all codes, all refusals."""

import logging
from pathlib import Path

import pytest
from tests.broker.auth.signing import ANN, ROOT, allow, checking, client_of
from tests.broker.conftest import Client, bodies, pull_header, send_header
from tests.kit.request_bodies import BODIES, fields_with_names

from cometmq.access.needs import NAMELESS
from cometmq.access.users import UserStatus
from cometmq.broker.auth.guarding import newcomer_limits
from cometmq.broker.auth_settings import AuthSettings
from cometmq.errors import NetworkError
from cometmq.format.properties import MAX_LENGTH
from cometmq.message import MessageQueue
from cometmq.wire.acl import ACCESS_KEY, SIGNATURE, Credentials, signature_of, signed_content
from cometmq.wire.bodies import Body, Heartbeat, LockRequest, LockResponse, decode, encode
from cometmq.wire.bodies.heartbeat import ProducerData
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import FRAME_LENGTH_MAX, ONEWAY_FLAG, Command
from cometmq.wire.frame import encode as frame
from cometmq.wire.headers import NoFields, TopicHeader, fields
from cometmq.wire.requests import TO_BROKERS

NO_PERMISSION = ResponseCode.NO_PERMISSION
SEND = RequestCode.SEND_MESSAGE_V2
STATS = RequestCode.GET_TOPIC_STATS_INFO
UNLIMITED: dict[str, int] = {"failed_signatures_max": 0, "unsigned_requests_max": 0}
PRODUCING = encode(Heartbeat("c", producers=[ProducerData("pg")]), standard=True)
NOTHING = "User:ann has no permission to access {} from 127.0.0.1, no matched policies."


def request(code: RequestCode) -> Command:
    """Build a request that names the topic "orders" and the group "g1", as far as it can."""
    line = TO_BROKERS[code]
    body = encode(BODIES[line.body], standard=True) if line.body in BODIES else b""
    return Command(code, ext_fields=fields_with_names(line), body=body)


async def test_no_code_passes_without_a_signature(tmp_path: Path) -> None:
    async with checking(tmp_path, **UNLIMITED) as broker, client_of(broker, None) as nobody:
        for code in [*TO_BROKERS, 9_999]:
            command = request(RequestCode(code)) if code in TO_BROKERS else Command(code)
            answer = await nobody.connection.request(command)
            assert (answer.code, answer.remark) == (NO_PERMISSION, "username cannot be null."), code


async def test_no_code_passes_with_a_forged_signature(tmp_path: Path) -> None:
    guess = Credentials("root", "a guess")
    async with checking(tmp_path, **UNLIMITED) as broker, client_of(broker, guess) as forger:
        for code in [*TO_BROKERS, 9_999]:
            command = request(RequestCode(code)) if code in TO_BROKERS else Command(code)
            answer = await forger.connection.request(command)
            assert (answer.code, answer.remark) == (NO_PERMISSION, "check signature failed."), code


async def test_a_user_without_policies_may_do_nothing_whatever_the_code(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        for code in TO_BROKERS:
            answer = await ann.connection.request(request(code))
            assert answer.code == NO_PERMISSION, code
            assert (answer.remark or "").startswith("User:ann has no permission to access "), code
        answer = await ann.connection.request(Command(9_999))
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_a_super_user_may_do_all_whatever_the_code(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root:
        for code in TO_BROKERS:
            if code in (RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION, RequestCode.PULL_MESSAGE):
                continue  # they may wait for messages
            answer = await root.connection.request(Command(code))
            for text in ("User:root", "username cannot be null", "signature"):
                assert text not in (answer.remark or ""), (code, answer.remark)


async def test_what_names_nothing_is_listed(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        for code in NAMELESS:
            line = TO_BROKERS[code]
            named: dict[str, str] = {
                name: value
                for name, value in fields_with_names(line).items()
                if value not in ("orders", "g1")
            }
            body = b'{"clientID":"c","consumerDataSet":[],"producerDataSet":[]}' if line.body else b""
            answer = await ann.connection.request(Command(code, ext_fields=named, body=body))
            assert "no permission" not in (answer.remark or ""), code


async def test_a_user_sends_and_pulls_what_its_policies_allow(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        refused = await ann.send("orders")
        assert (refused.code, refused.remark) == (NO_PERMISSION, NOTHING.format("Topic:orders"))
        allow(broker, "Topic:ord*", "Pub", "Sub")
        assert (await ann.send("orders", b"mine")).code == ResponseCode.SUCCESS
        assert (await ann.send("other")).remark == NOTHING.format("Topic:other")
        for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            refused = await ann.ask(code, pull_header("orders", group="g"))
            assert refused.remark == NOTHING.format("Group:g"), code
        allow(broker, "Group:g", "Sub")
        await ann.heartbeat("g", "orders")
        pulled = await ann.ask(RequestCode.PULL_MESSAGE, pull_header("orders", group="g"))
        assert bodies(pulled) == [b"mine"]


async def test_one_forbidden_topic_refuses_a_heartbeat(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        allow(broker, "Group:g", "Sub")
        allow(broker, "Topic:orders", "Sub")
        assert (await ann.heartbeat("g", "orders")).code == ResponseCode.SUCCESS
        refused = await ann.heartbeat("g", "orders", "secret")
        assert (refused.code, refused.remark) == (NO_PERMISSION, NOTHING.format("Topic:secret"))


async def test_other_refusals_have_rocketmqs_texts(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker:
        async with client_of(broker, Credentials("eve", "x")) as eve:
            assert (await eve.send("orders")).remark == "User:eve is not found."
        assert broker.parts.users is not None
        broker.parts.users.directory.update("ann", status=UserStatus.DISABLE)
        async with client_of(broker, ANN) as ann:
            assert (await ann.send("orders")).remark == "User:ann is disabled."


async def test_a_refused_one_way_send_is_dropped_silently(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        allow(broker, "Topic:orders", "Pub", "Get")
        await ann.send("orders")
        before = broker.store.written_offset
        forbidden = Command(SEND, flag=ONEWAY_FLAG, ext_fields=fields(send_header("secret", 0)), body=b"x")
        ann.connection.oneway(forbidden)
        answer = await ann.ask(STATS, TopicHeader("orders"))
        assert answer.code == ResponseCode.SUCCESS
        assert broker.store.written_offset == before


async def test_white_lists_hold_for_their_codes(tmp_path: Path) -> None:
    codes = str(int(STATS))
    both = {"authentication_whitelist": codes, "authorization_whitelist": codes}
    async with checking(tmp_path, **both) as broker, client_of(broker, None) as nobody:
        answer = await nobody.ask(STATS, TopicHeader("orders"))
        assert answer.code != NO_PERMISSION
        assert (await nobody.send("orders")).code == NO_PERMISSION


async def test_without_authorization_each_user_may_do_all(tmp_path: Path) -> None:
    async with checking(tmp_path, authorization_enabled=False) as broker:
        async with client_of(broker, ANN) as ann:
            assert (await ann.send("orders")).code == ResponseCode.SUCCESS
        async with client_of(broker, None) as nobody:
            assert (await nobody.send("orders")).code == NO_PERMISSION


async def test_a_change_after_signing_is_found(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, None) as replayer:
        signed = Command(STATS, ext_fields={"topic": "orders", ACCESS_KEY: "root"})
        signed.ext_fields[SIGNATURE] = _signature(signed)
        assert (await replayer.connection.request(signed)).code != NO_PERMISSION
        changes: list[tuple[dict[str, str], bytes]] = [
            ({"topic": "secret"}, b""),
            ({}, b"x"),
            ({"more": "1"}, b""),
        ]
        for named, body in changes:
            changed = Command(STATS, ext_fields=signed.ext_fields | named, body=body)
            assert (await replayer.connection.request(changed)).remark == "check signature failed."
        truncated = signed.ext_fields | {SIGNATURE: signed.ext_fields[SIGNATURE][:-1]}
        answer = await replayer.connection.request(Command(STATS, ext_fields=truncated))
        assert answer.remark == "check signature failed."


async def test_who_fails_too_often_loses_each_connection_that_fails_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with checking(tmp_path, failed_signatures_max=3) as broker, client_of(broker, ROOT) as neighbour:
        async with client_of(broker, None) as nobody:
            for _ in range(3):
                assert (await nobody.send("orders")).code == NO_PERMISSION
            with pytest.raises(NetworkError):
                await nobody.send("orders")
        async with client_of(broker, None) as again:
            with pytest.raises(NetworkError):
                await again.ask(STATS, TopicHeader("orders"))
        assert (await neighbour.send("orders")).code == ResponseCode.SUCCESS
    assert sum("signed by a user" in record.message for record in caplog.records) == 2


async def test_a_producer_is_asked_for_transactions_of_topics_that_its_user_may_send_to(
    tmp_path: Path,
) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        assert (await ann.ask(RequestCode.HEART_BEAT, NoFields(), PRODUCING)).code == ResponseCode.SUCCESS
        ((session, member),) = broker.parts.producers.members("pg").items()
        may_ask = broker.parts.transaction_check.may_ask
        assert not may_ask(session, member, "orders")
        allow(broker, "Topic:orders", "Pub")
        assert may_ask(session, member, "orders")
        assert not may_ask(session, member, "secret")
        session.user = "root"  # by a later request, which does not make the producer root's
        assert not may_ask(session, member, "secret")


async def test_nobody_is_sent_the_replies_to_another_users_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        for _ in range(2):
            assert (
                await root.ask(RequestCode.HEART_BEAT, NoFields(), PRODUCING)
            ).code == ResponseCode.SUCCESS
        (roots,) = broker.parts.producers.members("pg")
        answer = await ann.ask(RequestCode.HEART_BEAT, NoFields(), PRODUCING)
        assert answer.code == ResponseCode.SUCCESS, "both are producers"
        assert len(broker.parts.producers.members("pg")) == 2
        assert broker.parts.producers.find("c") is roots
    assert "under a client id of another user, the last under 'c' by user 'ann'" in caplog.text


async def test_two_users_clients_of_one_id_have_locks_of_their_own(tmp_path: Path) -> None:
    body = encode(LockRequest("c", "g", [MessageQueue("orders", "b", 0)]), standard=True)
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow(broker, "Group:g", "Sub")
        allow(broker, "Topic:orders", "Sub")

        async def granted(client: Client) -> int:
            answer = await client.ask(RequestCode.LOCK_BATCH_MQ, NoFields(), body)
            assert answer.code == ResponseCode.SUCCESS
            return len(decode(LockResponse, answer.body).queues)

        assert [await granted(root), await granted(ann), await granted(root)] == [1, 0, 1]
        answer = await ann.ask(RequestCode.UNLOCK_BATCH_MQ, NoFields(), body)
        assert answer.code == ResponseCode.SUCCESS and await granted(ann) == 0
        await root.ask(RequestCode.UNLOCK_BATCH_MQ, NoFields(), body)
        assert [await granted(ann), await granted(root)] == [1, 0]


async def test_nobody_writes_check_points_not_even_who_may_send_to_all_topics(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        allow(broker, "Topic:*", "All")
        refused = await ann.send("rmq_sys_REVIVE_LOG_DefaultCluster")
        assert refused.code == NO_PERMISSION
        assert (refused.remark or "").endswith("is the broker's own: send to one of yours")


def _signature(command: Command) -> str:
    return signature_of(ROOT.secret_key, signed_content(command.ext_fields, command.body, command.version))


def test_all_bodies_of_requests_that_name_something_have_an_example() -> None:
    types: set[type[Body] | None] = {
        line.body
        for line in TO_BROKERS.values()
        if any(one.resource.value != "Cluster" for one in line.access)
    }
    assert types - {None} == set(BODIES)


def test_a_largest_message_may_be_the_first_that_a_client_sends() -> None:
    message = Command(SEND, ext_fields={"i": "x" * MAX_LENGTH}, body=bytes(1 << 22))
    limits = newcomer_limits(AuthSettings(authentication_enabled=True), len(message.body))
    assert len(frame(message)) <= limits.frame_size_max < FRAME_LENGTH_MAX


async def test_a_long_frame_of_nobody_costs_its_connection(tmp_path: Path) -> None:
    async with checking(tmp_path, unsigned_frame_bytes_max=200_000) as broker:
        async with client_of(broker, None) as nobody:
            assert (await nobody.send("orders", bytes(150_000))).code == NO_PERMISSION
            with pytest.raises(NetworkError):
                await nobody.send("orders", bytes(200_000))
        async with client_of(broker, ROOT) as root:
            for size in (150_000, 200_000):
                assert (await root.send("orders", bytes(size))).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("code", [SEND, STATS])
async def test_a_right_signature_ends_the_limits_of_a_connection_even_if_its_request_is_forbidden(
    tmp_path: Path, code: RequestCode
) -> None:
    async with checking(tmp_path, unsigned_requests_max=1) as broker, client_of(broker, ANN) as ann:
        for _ in range(5):
            answer = await ann.connection.request(request(code))
            assert (answer.code, answer.remark) == (NO_PERMISSION, NOTHING.format("Topic:orders"))
        assert [session.newcomers for session in broker.server.sessions] == [None]


@pytest.mark.parametrize("code", [SEND, STATS])
async def test_refused_requests_of_a_connection_without_a_signature_are_few(
    tmp_path: Path, code: RequestCode
) -> None:
    async with checking(tmp_path, unsigned_requests_max=3) as broker, client_of(broker, None) as nobody:
        for _ in range(3):
            assert (await nobody.connection.request(request(code))).code == NO_PERMISSION
        with pytest.raises(NetworkError):
            await nobody.connection.request(request(code))


@pytest.mark.parametrize("code", [SEND, STATS])
async def test_an_allowed_request_ends_the_limits_of_a_connection(tmp_path: Path, code: RequestCode) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root:
        await root.connection.request(request(code))
        assert [session.newcomers for session in broker.server.sessions] == [None]


async def test_a_request_of_the_white_list_ends_them_only_if_it_is_signed(tmp_path: Path) -> None:
    white = str(int(STATS))
    async with checking(tmp_path, authentication_whitelist=white, authorization_whitelist=white) as broker:
        for who, is_limited in ((None, True), (ROOT, False)):
            async with client_of(broker, who) as client:
                answer = await client.connection.request(request(STATS))
                assert answer.code != NO_PERMISSION
                (session,) = broker.server.sessions
                assert (session.newcomers is not None) is is_limited
