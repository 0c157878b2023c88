"""Signatures are those that RocketMQ's own clients make and its servers check."""

import base64
import hashlib
import hmac
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import IllegalType, SettingsError
from cometmq.wire import acl
from cometmq.wire.acl import (
    ACCESS_KEY,
    ADDED_AFTER_SIGNING,
    SIGNATURE,
    Credentials,
    signature_of,
    signed_content,
    signed_fields,
    signing_key,
)
from cometmq.wire.codes import VERSION, Version

USER = Credentials("RocketMQ", "12345678")


def test_the_signature_is_that_of_rocketmq_for_the_content_of_its_own_test() -> None:
    assert signature_of("12345678", b"RocketMQ") == "IUc8rrO/0gDch8CjObLQsW2rsiA="  # AclSignerTest.java


@given(secret=st.text(min_size=1, max_size=100), content=st.binary(max_size=200))
def test_the_signature_is_hmac_with_secrets_of_any_length(secret: str, content: bytes) -> None:
    digest = hmac.digest(secret.encode(errors="replace"), content, "sha1")
    expected = base64.b64encode(digest)
    assert signature_of(secret, content) == expected.decode()
    key, half = signing_key(secret), len(content) // 2
    assert key.has_signed(memoryview(expected), memoryview(content)[:half], content[half:])
    for wrong in (
        expected[:-1],
        b"",
        "\u00fc".encode(),
        b"A" + expected,
        signing_key(secret + "x").sign(content),
    ):
        assert not key.has_signed(wrong, content)
    assert not key.has_signed(expected, content, b"more")


def test_the_values_are_signed_in_the_order_of_their_names_and_the_body_follows() -> None:
    fields = {"topic": "T", "b": "2", "AccessKey": "user", "Signature": "old", "B": "1"}
    assert signed_content(fields, b"body", VERSION) == b"user12Tbody"


@pytest.mark.parametrize(
    ("version", "content"), [(Version.V4_9_3, b"key"), (Version.V4_9_4, b"truekey"), (VERSION, b"truekey")]
)
def test_clients_up_to_493_do_not_sign_the_flag_of_a_query_by_unique_key(
    version: Version, content: bytes
) -> None:
    assert signed_content({"key": "key", "_UNIQUE_KEY_QUERY": "true"}, b"", version) == content


def test_a_signature_does_not_say_where_a_value_ends() -> None:
    """RocketMQ's is so, which is why docs/guide/security.md asks for TLS."""
    sent = signed_content({"AccessKey": "user", "b": "T"}, b"body", VERSION)
    assert sent == signed_content({"AccessKey": "user", "b": "Tbo"}, b"dy", VERSION)
    assert sent == signed_content({"AccessKey": "user", "c": "T", "d": "body"}, b"", VERSION)


def test_what_is_not_a_character_is_signed_as_java_encodes_it() -> None:
    assert signed_content({"a": "\ud800x"}, b"", VERSION) == b"?x"


@given(
    fields=st.dictionaries(st.text("abAB_") | st.sampled_from([ACCESS_KEY, SIGNATURE]), st.text("aé€😀")),
    body=st.binary(max_size=20),
)
def test_a_signed_request_names_its_user_and_holds_the_signature_of_all_else(
    fields: dict[str, str], body: bytes
) -> None:
    signed = signed_fields(fields, body, VERSION, USER)
    rest = {name: value for name, value in signed.items() if name != SIGNATURE}
    assert rest == {name: value for name, value in fields.items() if name != SIGNATURE} | {
        ACCESS_KEY: "RocketMQ"
    }
    content = "".join(value for _, value in sorted(rest.items())).encode() + body
    expected = base64.b64encode(hmac.new(b"12345678", content, hashlib.sha1).digest()).decode()
    assert signed[SIGNATURE] == expected
    assert signed_fields(signed, body, VERSION, USER) == signed  # a second try signs the same


def test_no_text_of_credentials_has_the_secret() -> None:
    rich = list(USER.__rich_repr__())
    assert "12345678" not in f"{USER} {USER!r} {rich}"
    assert "RocketMQ" in repr(USER)
    assert pickle.loads(pickle.dumps(USER)) == USER


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("", "secret"), "access_key is empty"),
        (("user", ""), "secret_key is empty"),
        ((b"user", "secret"), "access_key"),
    ],
)
def test_credentials_without_a_name_or_a_secret_are_refused(keys: tuple[Any, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        Credentials(*keys)


def test_a_secret_of_a_wrong_type_is_not_shown() -> None:
    secret: Any = b"12345678"
    with pytest.raises(IllegalType, match=r"^secret_key \(bytes\): give a text$"):
        Credentials("user", secret)


@given(st.permutations(["b", "a", "z", SIGNATURE, ADDED_AFTER_SIGNING]), st.sampled_from([479, 399]))
def test_fields_are_signed_alike_in_whatever_order_they_come(names: list[str], version: int) -> None:
    content = signed_content({name: f"<{name}>" for name in names}, b"!", version)
    flag = b"" if version == 399 else b"<_UNIQUE_KEY_QUERY>"
    assert content == flag + b"<a><b><z>!"


def test_of_one_field_or_none_what_is_signed_is_its_value_and_the_body() -> None:
    for _ in range(2):
        assert signed_content({"name": "value"}, b"!", 479) == b"value!"
        assert signed_content({SIGNATURE: "value"}, b"!", 479) == signed_content({}, b"!", 479) == b"!"


def test_the_orders_of_fields_that_peers_send_take_little_memory() -> None:
    for number in range(acl._ORDERS_MAX + 10):
        assert signed_content({f"k{number}": "1", "a": "2"}, b"", 479) == b"21"
    assert len(acl._ORDERS) <= acl._ORDERS_MAX
    kept = len(acl._ORDERS)
    signed_content({"k" * acl._ORDER_LENGTH_MAX: "1", "a": "2"}, b"", 479)
    assert len(acl._ORDERS) == kept
