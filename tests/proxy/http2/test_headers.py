"""The headers of calls."""

import pytest

from cometmq.proxy.http2.headers import Headers, malformed, malformed_trailers

SOUND: Headers = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/x"),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("x-1", ""),
    ("1", "2"),
]


def test_headers_that_are_as_http2_has_them_are_not_malformed() -> None:
    assert malformed(SOUND) is None
    assert malformed_trailers([("x", "y")]) is None


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([*SOUND, ("X-Upper", "x")], "the name 'X-Upper' has capital letters"),
        ([(":unknown", "x"), *SOUND], "the header ':unknown' is unknown, repeated or misplaced"),
        ([(":status", "200"), *SOUND], "the header ':status' is unknown, repeated or misplaced"),
        ([*SOUND[:1], *SOUND], "the header ':method' is unknown, repeated or misplaced"),
        ([SOUND[4], *SOUND[:4]], "the header ':method' is unknown, repeated or misplaced"),
        ([*SOUND, ("connection", "keep-alive")], "the header connection is not one of HTTP/2"),
        ([*SOUND, ("te", "gzip")], "the header te is not one of HTTP/2"),
        (SOUND[1:], "a header is missing: :method"),
        ([*SOUND[:2], (":path", ""), *SOUND[3:]], "a header is missing: :path"),
        ([SOUND[0], SOUND[4]], "a header is missing: :path, :scheme"),
    ],
)
def test_it_is_said_why_headers_are_malformed(headers: Headers, why: str) -> None:
    assert malformed(headers) == why


def test_trailers_have_no_pseudo_headers() -> None:
    assert malformed_trailers([("x", "y"), (":path", "/")]) == "trailers have a pseudo-header"
