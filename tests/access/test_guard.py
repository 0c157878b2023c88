from hypothesis import given
from hypothesis import strategies as st

from cometmq.access.directory import Directory
from cometmq.access.failures import Failures
from cometmq.access.guard import NAMES_LENGTH_MAX, REMEMBERED_MAX, Guard, GuardRules
from cometmq.access.needs import Needs
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.users import User, UserStatus, UserType
from cometmq.wire import bodies
from cometmq.wire.acl import ACCESS_KEY, SIGNATURE, Credentials, signed_content, signed_fields
from cometmq.wire.bodies.heartbeat import ConsumerData, SubscriptionData
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, decode, encode
from cometmq.wire.requests import TO_BROKERS

HERE = "127.0.0.1"
ANN, ROOT = Credentials("ann", "ann's"), Credentials("root", "root's")


ALL = GuardRules()


def guard(rules: GuardRules = ALL, *entries: PolicyEntry) -> tuple[Guard, Directory]:
    directory = Directory()
    directory.create(User("ann", "ann's"))
    directory.create(User("root", "root's", UserType.SUPER))
    if entries:
        directory.put_acl(Acl("ann", entries))
    needs = Needs(TO_BROKERS, "c", lambda body_type, command: bodies.decode(body_type, command.body))
    return Guard(directory, needs, rules, Failures(2, lambda: 0)), directory


def allow(resource: str, *actions: str) -> PolicyEntry:
    return PolicyEntry.parse(resource, actions, None, "Allow")


def signed(command: Command, credentials: Credentials = ANN) -> Command:
    command.ext_fields = signed_fields(command.ext_fields, command.body, command.version, credentials)
    return command


def stats(topic: str = "orders", credentials: Credentials = ANN) -> Command:
    return signed(Command(RequestCode.GET_TOPIC_STATS_INFO, ext_fields={"topic": topic}), credentials)


def test_an_unsigned_request_is_refused() -> None:
    checked, _ = guard()
    unsigned = Command(RequestCode.GET_TOPIC_STATS_INFO, ext_fields={"topic": "orders"})
    assert checked.refusal(unsigned, HERE) == "username cannot be null."


def test_an_unknown_or_disabled_user_is_refused() -> None:
    checked, directory = guard()
    assert checked.refusal(stats(credentials=Credentials("eve", "x")), HERE) == "User:eve is not found."
    directory.update("root", status=UserStatus.DISABLE)
    assert checked.refusal(stats(credentials=ROOT), HERE) == "User:root is disabled."


def test_a_wrong_signature_is_refused() -> None:
    checked, _ = guard()
    assert checked.refusal(stats(credentials=Credentials("root", "guess")), HERE) == "check signature failed."
    unsigned = stats(credentials=ROOT)
    del unsigned.ext_fields[SIGNATURE]
    assert checked.refusal(unsigned, HERE) == "check signature failed."
    foreign = stats(credentials=ROOT)
    foreign.ext_fields[SIGNATURE] = "ü"
    assert checked.refusal(foreign, HERE) == "check signature failed."


def test_a_super_user_may_do_all() -> None:
    checked, _ = guard()
    assert checked.refusal(stats(credentials=ROOT), HERE) is None


def test_a_normal_user_may_do_what_its_policies_allow() -> None:
    checked, _ = guard(ALL, allow("Topic:orders", "Get"))
    assert checked.refusal(stats(), HERE) is None
    text = "User:ann has no permission to access Topic:other from 127.0.0.1, no matched policies."
    assert checked.refusal(stats("other"), HERE) == text


def test_all_that_a_request_needs_must_be_allowed() -> None:
    heartbeat = bodies.Heartbeat(
        "c", consumers=[ConsumerData("g", [SubscriptionData("orders"), SubscriptionData("secret")])]
    )
    command = Command(RequestCode.HEART_BEAT, body=bodies.encode(heartbeat, standard=True))
    checked, directory = guard(ALL, allow("Group:g", "Sub"), allow("Topic:orders", "Sub"))
    text = "User:ann has no permission to access Topic:secret from 127.0.0.1, no matched policies."
    assert checked.refusal(signed(command), HERE) == text
    directory.put_acl(Acl("ann", (allow("Topic:secret", "Sub"),)))
    assert checked.refusal(command, HERE) is None


def test_a_change_of_policies_or_users_holds_at_once() -> None:
    checked, directory = guard()
    assert checked.refusal(stats(), HERE) is not None
    directory.put_acl(Acl("ann", (allow("Topic:*", "Get"),)))
    assert checked.refusal(stats(), HERE) is None
    directory.update("ann", password="new")
    assert checked.refusal(stats(), HERE) == "check signature failed."
    directory.delete("ann")
    assert checked.refusal(stats(), HERE) == "User:ann is not found."


def test_a_decision_is_remembered_for_one_address_only() -> None:
    checked, _ = guard(ALL, PolicyEntry.parse("Topic:orders", ["Get"], [HERE], "Allow"))
    assert checked.refusal(stats(), HERE) is None
    assert "from 10.0.0.1, no matched policies." in (checked.refusal(stats(), "10.0.0.1") or "")


def test_memory_is_bounded() -> None:
    checked, _ = guard(ALL, allow("Topic:*", "Get"))
    for number in range(REMEMBERED_MAX // 2 + 10):
        assert checked.refusal(stats(f"t{number}"), HERE) is None
    assert len(checked._remembered) <= REMEMBERED_MAX
    remembered = dict(checked._remembered)
    assert checked.refusal(stats("t" * NAMES_LENGTH_MAX + "t"), HERE) is None
    assert checked._remembered == remembered


def test_an_address_of_which_too_many_requests_are_of_nobody_is_suspect() -> None:
    checked, _ = guard()
    for _ in range(3):
        assert not checked.is_suspect(HERE)
        assert checked.refusal(stats(credentials=Credentials("root", "guess")), HERE) is not None
    assert checked.is_suspect(HERE)
    assert not checked.is_suspect("10.0.0.1")


def test_what_a_known_user_may_not_do_makes_nobody_suspect() -> None:
    checked, _ = guard()
    for _ in range(4):
        assert checked.refusal(stats(), HERE) is not None
    assert not checked.is_suspect(HERE)


def test_a_request_that_cannot_be_read_is_refused() -> None:
    checked, _ = guard()
    refusal = checked.refusal(signed(Command(RequestCode.LOCK_BATCH_MQ, body=b"{")), HERE)
    assert (refusal or "").startswith("parse authorization context error.")


def test_an_exempt_code_needs_no_signature_but_still_a_permission() -> None:
    code = RequestCode.GET_TOPIC_STATS_INFO
    unsigned = Command(code, ext_fields={"topic": "orders"})
    assert guard(GuardRules(unsigned={code}))[0].refusal(unsigned, HERE) == "username cannot be null."
    assert guard(GuardRules(unsigned={code}, unauthorized={code}))[0].refusal(unsigned, HERE) is None
    assert guard(GuardRules(authorizes=False, unsigned={code}))[0].refusal(unsigned, HERE) is None
    forged = stats(credentials=Credentials("root", "guess"))
    assert guard(GuardRules(unsigned={code}))[0].refusal(forged, HERE) == "check signature failed."


def test_without_authorization_a_signature_is_enough() -> None:
    checked, _ = guard(GuardRules(authorizes=False))
    assert checked.refusal(stats("other"), HERE) is None


@given(st.data())
def test_no_change_of_what_is_signed_passes(data: st.DataObject) -> None:
    """A changed frame is refused, unless nothing that is signed has changed in it."""
    checked, _ = guard()
    fields = {"b": "orders", "a": "p", "i": "k\x01v\x02"}
    sent = signed(Command(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=b"hello"), ROOT)
    frame = bytearray(encode(sent))
    at = data.draw(st.integers(8, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    try:
        changed = decode(bytes(frame))
    except Exception:  # noqa: BLE001 what is no frame is refused elsewhere
        return
    if checked.refusal(changed, HERE) is None:
        assert signed_content(changed.ext_fields, b"", 0) == signed_content(sent.ext_fields, b"", 0)
        assert changed.body == sent.body
        assert changed.ext_fields[ACCESS_KEY] == "root"
