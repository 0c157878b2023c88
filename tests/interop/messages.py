"""The messages that the Java programs send and know, made in Python."""

from cometmq import Message

LONG_EVERY = 100
LONG_BYTES = 6_000  # above the Java client's threshold for compression


def like_java(topic: str, kind: str, number: int) -> Message:
    """Build what ``TestMessage.java`` builds."""
    key = f"{kind}-{number}"
    size = LONG_BYTES if number % LONG_EVERY == 0 else 40 + number % 90
    body = f"{key}|".encode().ljust(size, b"%c" % (ord("a") + number % 26))
    return Message(topic, body, ("TagA", "TagB", "TagC")[number % 3], (key,))
