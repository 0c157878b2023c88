"""The frames of a connection, and how many of them may carry nothing."""

import struct
from typing import cast

import pytest
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, PingReceived, RequestReceived
from h2.exceptions import DenialOfServiceError, StreamClosedError
from h2.settings import SettingCodes
from hyperframe.frame import (
    Frame,
    GoAwayFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from tests.proxy.http2.conftest import PREFACE, UNKNOWN_FRAME, Clock, data_frame, headers_frame, reset_frame

from cometmq.proxy.http2.frames import (
    CALL_COST,
    CALL_CREDIT,
    CREDIT_BYTES,
    HEADER_TABLE_BYTES,
    STREAMS_KEPT,
    Allowance,
    Http2,
)

MOST = 20
SETTINGS = SettingsFrame(0).serialize()
PING = PingFrame(0, b"12345678").serialize()


def http2(most: int = MOST) -> Http2:
    """Return a connection whose client has sent its settings, and may send so many idle frames then."""
    made = Http2(Allowance("frames", most, 1, "idleFramesMax", lambda: 0.0))
    made.initiate_connection()
    made.reader.left = 1_000_000
    made.receive_data(PREFACE + SETTINGS)
    made._idle.give(most)
    made.data_to_send()
    return made


def frames_in(data: bytes) -> list[Frame]:
    found = []
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + length]))
        found.append(frame)
        data = data[9 + length :]
    return found


def test_an_allowance_is_used_up_and_regained() -> None:
    clock = Clock()
    allowance = Allowance("resets of calls", 3, 2, "resetsMax", clock)
    for _ in range(3):
        allowance.take()
    with pytest.raises(
        DenialOfServiceError, match=r"more than 3 resets of calls at once, and 2 a second \(resetsMax\)"
    ):
        allowance.take()
    clock.now = 1.0
    allowance.take()
    clock.now = 1_000.0
    allowance.take()
    allowance.take(2)
    with pytest.raises(DenialOfServiceError):
        allowance.take()


def test_what_is_given_to_an_allowance_is_no_more_than_it_has_at_first() -> None:
    allowance = Allowance("frames", 3, 1, "idleFramesMax", lambda: 0.0)
    allowance.give(100)
    allowance.take(3)
    allowance.give(1)
    allowance.take()
    with pytest.raises(DenialOfServiceError):
        allowance.take()


@pytest.mark.parametrize(
    "frame",
    [
        PING,
        SETTINGS,
        WindowUpdateFrame(0, 1).serialize(),
        WindowUpdateFrame(1, 1).serialize(),
        PriorityFrame(9, depends_on=3).serialize(),
        RstStreamFrame(1).serialize(),
        GoAwayFrame(0).serialize(),
        UNKNOWN_FRAME,
        data_frame(1, b"", ends=False),
    ],
    ids=[
        "ping",
        "settings",
        "window",
        "stream window",
        "priority",
        "reset",
        "goaway",
        "unknown",
        "empty data",
    ],
)
def test_too_many_frames_that_carry_nothing_end_the_connection(frame: bytes) -> None:
    connection = http2()
    connection.receive_data(headers_frame(1))
    with pytest.raises(DenialOfServiceError):
        connection.receive_data(frame * (MOST + CALL_CREDIT + 1))
    (*_, last) = frames_in(connection.data_to_send())
    assert isinstance(last, GoAwayFrame) and last.error_code == ErrorCodes.ENHANCE_YOUR_CALM


def test_so_do_too_many_frames_with_little_of_a_call_that_has_ended() -> None:
    """Each is answered by a reset; long ones may be on their way when a call is refused."""
    connection = http2()
    connection.receive_data(headers_frame(1) + reset_frame(1))
    for _ in range(2 * MOST):
        connection.receive_data(data_frame(1, b"x" * CREDIT_BYTES, ends=False))
    with pytest.raises(DenialOfServiceError):
        connection.receive_data(data_frame(1, b"x", ends=False) * (MOST + CALL_CREDIT + 1))


def test_calls_and_what_is_sent_allow_idle_frames() -> None:
    connection = http2()
    window = WindowUpdateFrame(0, 65_535).serialize()
    for number in range(1, 400, 2):
        connection.receive_data(
            headers_frame(number) + WindowUpdateFrame(number, 10).serialize() + PING + window
        )
        connection.send_headers(number, [(":status", "200")])
        connection.send_data(number, b"x" * 1024)
        connection.receive_data(PING + window + reset_frame(number))


def test_a_frame_of_an_unknown_type_is_ignored() -> None:
    connection = http2()
    (event,) = connection.receive_data(UNKNOWN_FRAME + headers_frame(1))
    assert isinstance(event, RequestReceived)
    assert connection.data_to_send() == b""


def test_a_header_may_have_any_bytes() -> None:
    connection = http2()
    (event,) = connection.receive_data(headers_frame(1, ("x-name", "gr\u00fc\u00df")))
    assert isinstance(event, RequestReceived)
    named = dict(cast(list[tuple[str, str]], event.headers))
    assert named["x-name"].encode("latin-1").decode() == "gr\u00fc\u00df"


def test_a_client_that_leaves_does_not_end_its_calls() -> None:
    connection = http2()
    _, event = connection.receive_data(headers_frame(1) + GoAwayFrame(0, error_code=2).serialize())
    assert isinstance(event, ConnectionTerminated) and event.error_code == 2
    connection.send_headers(1, [(":status", "200")], end_stream=True)


def test_only_known_settings_are_kept_and_no_long_table_of_headers() -> None:
    connection = http2(10_000)
    many = b"".join(struct.pack(">HL", number, 1) for number in range(10, 2_000))
    connection.receive_data(struct.pack(">IBBI", len(many), 4, 0, 0)[1:] + many)
    assert len(connection.remote_settings) < 10
    codes = SettingCodes.HEADER_TABLE_SIZE
    connection.receive_data(SettingsFrame(0, settings={codes: 1 << 30}).serialize())
    assert connection.encoder.header_table_size == HEADER_TABLE_BYTES
    connection.receive_data(SettingsFrame(0, settings={codes: 0}).serialize())
    assert connection.encoder.header_table_size == 0


def test_frames_beyond_the_share_of_a_turn_wait() -> None:
    connection = http2()
    connection.reader.left = 3
    assert len(connection.receive_data(PING * 5)) == 3
    assert connection.reader.size == 2 * len(PING)
    connection.reader.left = 3
    assert [type(event) for event in connection.receive_data(b"")] == [PingReceived] * 2
    assert connection.reader.left == 1


def test_the_beginning_of_a_call_uses_more_of_a_share() -> None:
    connection = http2()
    connection.reader.left = CALL_COST + 1
    assert len(connection.receive_data(b"".join(headers_frame(number) for number in (1, 3, 5)))) == 2


def test_streams_that_have_ended_are_forgotten_at_last() -> None:
    connection = http2(10_000)
    for number in range(1, 10 * STREAMS_KEPT, 2):
        connection.receive_data(headers_frame(number) + reset_frame(number))
    assert len(connection.streams) <= STREAMS_KEPT + 1
    assert connection.open_inbound_streams <= STREAMS_KEPT + 1
    with pytest.raises(StreamClosedError):
        connection.send_data(1, b"x")
