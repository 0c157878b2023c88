"""RocketMQ's own header classes, to hold ours to."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cometmq.wire.headers.fields import Header, type_name

JAVA_TYPES = {
    "String": "a text",
    "Integer": "a 32-bit integer",
    "Int": "a 32-bit integer",
    "Long": "a 64-bit integer",
    "Boolean": "a boolean",
}

EXCEPTIONS = {
    ("SendMessageResponseHeader", "MSG_REGION"): "brokers add it beside the header class",
    ("SendMessageResponseHeader", "TRACE_ON"): "brokers add it beside the header class",
    ("QueryMessageRequestHeader", "_UNIQUE_KEY_QUERY"): "clients add it beside the header class",
    ("RegisterBrokerRequestHeader", "zoneName"): "brokers add it beside the header class",
    ("PullMessageRequestHeader", "subVersion"): "means nothing to a pull that sends its subscription along",
    ("CreateTopicRequestHeader", "order"): "older tools leave it out when false",
    ("GetAllTopicConfigRequestHeader", "topicSeq"): "brokers before 5.4 know no pages",
    ("GetAllSubscriptionGroupRequestHeader", "groupSeq"): "brokers before 5.4 know no pages",
    ("GetAllSubscriptionGroupResponseHeader", "totalGroupNum"): "brokers before 5.4 know no pages",
    ("SearchOffsetRequestHeader", "boundaryType"): "an enumeration, carried as its name",
}


@pytest.fixture(scope="session")
def java_headers() -> dict[str, dict[str, tuple[str, bool]]]:
    """Class name → field → (type, whether it must be there)."""
    lines = Path(__file__).with_name("java_headers.txt").read_text().splitlines()[1:]
    return {
        name: {
            field: (JAVA_TYPES.get(java_type.rstrip("!").capitalize(), java_type), java_type.endswith("!"))
            for field, java_type in (part.split(":") for part in parts)
        }
        for name, *parts in (line.split() for line in lines)
    }


@pytest.fixture
def differences(
    java_headers: dict[str, dict[str, tuple[str, bool]]],
) -> Callable[[type[Header], str], list[str]]:
    """Provide a function that tells in which fields one of our headers is not like Java's."""

    def find(header: type[Header], java_name: str) -> list[str]:
        java = java_headers[java_name]
        return [
            f"{known.encode_name}: {java.get(known.encode_name)}"
            for known in msgspec.structs.fields(header)
            if (java_name, known.encode_name) not in EXCEPTIONS
            and java.get(known.encode_name) != (type_name(known.type), known.required)
        ]

    return find
