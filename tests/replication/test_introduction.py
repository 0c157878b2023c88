"""What is said inside TLS before a slave is let in, byte by byte."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.replication import frames, introduction
from cometmq.replication.introduction import HEAD_SIZE, MAGIC, SIGNATURE_SIZE
from cometmq.wire.acl import Credentials

CHALLENGE = bytes(range(16))


def test_a_greeting_is_magic_and_challenge() -> None:
    greeting = introduction.encode_greeting(CHALLENGE)
    assert greeting == b"\xffCometMQ" + CHALLENGE
    assert len(greeting) == introduction.GREETING_SIZE
    assert introduction.decode_greeting(greeting) == CHALLENGE


def test_what_greets_otherwise_is_no_master_of_ours() -> None:
    with pytest.raises(ProtocolError, match="no CometMQ master"):
        introduction.decode_greeting(bytes(24))


def test_nothing_of_it_can_be_taken_for_rocketmqs_protocol() -> None:
    """Its slaves report an offset that is not negative, and so do its masters."""
    assert frames.ReportReader().receive(MAGIC) == int.from_bytes(MAGIC, "big", signed=True) < 0


def test_without_a_user_an_introduction_is_magic_and_no_name() -> None:
    data = introduction.encode_introduction(CHALLENGE, None)
    assert data == MAGIC + b"\0\0"
    assert introduction.decode_head(data) == 0


@given(
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=100), secret=st.text("abc", min_size=1)
)
def test_a_user_signs_the_challenge_and_its_name(name: str, secret: str) -> None:
    data = introduction.encode_introduction(CHALLENGE, Credentials(name, secret))
    size = introduction.decode_head(data[:HEAD_SIZE])
    named, signature = data[HEAD_SIZE : HEAD_SIZE + size], data[HEAD_SIZE + size :]
    assert named.decode() == name and len(signature) == SIGNATURE_SIZE
    assert signature == hmac.new(secret.encode(), MAGIC + CHALLENGE + named, hashlib.sha256).digest()
    assert introduction.is_signed(CHALLENGE, named, signature, secret)
    assert not introduction.is_signed(CHALLENGE, named, signature, secret + "d")
    assert not introduction.is_signed(bytes(16), named, signature, secret)
    assert not introduction.is_signed(CHALLENGE, b"other", signature, secret)


@pytest.mark.parametrize("head", [b"\0" * HEAD_SIZE, b"\xffKometMQ\0\1", MAGIC + b"\xff\xff"])
def test_a_head_that_cannot_be_is_refused(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        introduction.decode_head(head)


def test_a_name_that_is_too_long_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ProtocolError, match="at most 1024"):
        introduction.encode_introduction(CHALLENGE, Credentials("n" * 1025, "s"))
