"""The headers of calls: those that HTTP/2 calls malformed, and those that are not as gRPC has them.

Source: RFC 9113, 8.2 and 8.3; gRPC over HTTP2.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from grpclib.const import Status
from grpclib.metadata import decode_timeout

TIMEOUT_DIGITS: Final = 8
"""Longest number of a call's ``grpc-timeout``."""
KEPT_CHARACTERS_MAX: Final = 8 * 1_024
"""Most characters of the headers of a call that are kept until it has ended."""
KEPT: Final = frozenset(
    {
        *(":method", ":path", "te", "content-type", "grpc-timeout", "authorization"),
        *("x-mq-date-time", "x-mq-client-id", "x-mq-language", "x-mq-user"),
    }
)
"""The headers that mean something here."""
_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority"})
_REQUIRED: Final = frozenset({":method", ":scheme", ":path"})
_OF_CONNECTIONS: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)
_GRPC: Final = ("application/grpc", "application/grpc+proto")

Headers = list[tuple[str, str]]
"""Names and values, in their order."""
Refusal = tuple[int, Status | None, str]
"""A status of HTTP, one of gRPC, and why."""


def malformed(headers: Headers) -> str | None:
    """Return why a request is malformed by HTTP/2; None if it is not."""
    pseudo: set[str] = set()
    are_over = False
    for name, value in headers:
        if name.startswith(":"):
            if are_over or name in pseudo or name not in _PSEUDO:
                return f"the header {name!r:.100} is unknown, repeated or misplaced"
            if value:
                pseudo.add(name)
        else:
            are_over = True
            if name in _OF_CONNECTIONS or (name == "te" and value != "trailers"):
                return f"the header {name} is not one of HTTP/2"
            if not name.islower() and name != name.lower():
                return f"the name {name!r:.100} has capital letters"
    if not pseudo >= _REQUIRED:
        return f"a header is missing: {', '.join(sorted(_REQUIRED - pseudo))}"
    return None


def malformed_trailers(headers: Iterable[tuple[str, str]]) -> str | None:
    """Return why the trailers of a request are malformed; None if they are not."""
    if any(name.startswith(":") for name, _ in headers):
        return "trailers have a pseudo-header"
    return None


def kept_of(headers: Headers) -> dict[str, str]:
    """Return the first value of each header that means something here.

    Others are not kept while a call waits: the few bytes by which a client repeats one stand for thousands.
    """
    return {name: value for name, value in reversed(headers) if name in KEPT}


def refusal_of(named: Mapping[str, str]) -> Refusal | None:
    """Return how a call is refused that is not as gRPC has them, by its headers."""
    if named.get(":method") != "POST":
        return 405, None, "not a POST request"
    if (kind := named.get("content-type")) not in _GRPC:
        return 415, Status.UNKNOWN, f"content-type is {kind!r:.100}, not {_GRPC[0]!r}"
    if named.get("te") != "trailers":
        return 400, Status.UNKNOWN, "the header te is not 'trailers'"
    if (count := sum(map(len, named.values()))) > KEPT_CHARACTERS_MAX:
        return (
            200,
            Status.RESOURCE_EXHAUSTED,
            f"{count} characters of headers, more than {KEPT_CHARACTERS_MAX}",
        )
    if (timeout := named.get("grpc-timeout")) is not None and not _is_timeout(timeout):
        return (
            200,
            Status.UNKNOWN,
            f"grpc-timeout is {timeout!r:.100}, not a number of {TIMEOUT_DIGITS} digits and a unit",
        )
    return None


def _is_timeout(text: str) -> bool:
    try:
        return len(text) <= TIMEOUT_DIGITS + 1 and decode_timeout(text) >= 0
    except ValueError:
        return False
