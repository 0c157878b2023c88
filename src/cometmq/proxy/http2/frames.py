"""HTTP/2 as h2 speaks it, with limits on frames that cost more than they are worth.

A few bytes can be a frame that takes as long as a call, or one that is to be answered. So each connection has
two allowances, which time refills; one that has used one up is closed with ENHANCE_YOUR_CALM::

    resets   calls that the client resets, or has us reset, while they are under way
    idle     frames that carry nothing: PING, SETTINGS, WINDOW_UPDATE, PRIORITY, GOAWAY, RST_STREAM, empty
             DATA, little of it for a call that has ended, unknown types; calls refill it, and what is sent

What remains is handled in turns (``turns.py``): the reader of frames stops when its share is used up.

Source: RFC 9113, sections 5.5 and 10.5.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import ConnectionTerminated, Event
from h2.exceptions import DenialOfServiceError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes
from hyperframe.frame import (
    DataFrame,
    ExtensionFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

CALL_COST: Final = 16
"""What the beginning of a call, or a change of settings, uses of a turn: so many times as much as others."""
CALL_CREDIT: Final = 4
"""Idle frames that a call allows: its window updates, a ping, its reset."""
CREDIT_BYTES: Final = 512
"""Bytes of answers that allow one idle frame."""
SETTINGS_WEIGHT: Final = 8
"""Idle frames that a change of settings counts as: it may touch all calls."""
CLOSED_STREAMS_MAX: Final = 4_096
"""Streams that have ended, and of which is remembered how."""
STREAMS_KEPT: Final = 16
"""Streams that have ended and may be left until the next look for them."""
_COSTS: Final[dict[type[Frame], int]] = {HeadersFrame: CALL_COST, SettingsFrame: CALL_COST}
_SETTINGS: Final = frozenset(
    (
        SettingCodes.HEADER_TABLE_SIZE,
        SettingCodes.ENABLE_PUSH,
        SettingCodes.MAX_CONCURRENT_STREAMS,
        SettingCodes.INITIAL_WINDOW_SIZE,
        SettingCodes.MAX_FRAME_SIZE,
    )
)
"""The settings of clients that are kept; h2 would keep all others, too, and there may be 65,536 of them."""
HEADER_TABLE_BYTES: Final = 4_096
"""Largest table of headers that the proxy writes: it is searched for each header that is sent."""
_CONFIGURATION: Final = H2Configuration(
    client_side=False,
    header_encoding="latin-1",  # any byte is a character of it
    validate_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_inbound_headers=False,
    normalize_outbound_headers=False,
)

Frames = tuple[list[Frame], list[Event]]
"""The frames that answer a frame, and the events that it means."""


class Allowance:
    """How often a connection may do something: some times at once, and some more in each second.

    Args:
        what: for the error, such as ``resets of calls``.
        most: how often at once.
        per_s: how much it regains in a second.
        setting: the name of the setting that is ``most``.
    """

    __slots__ = ("_clock", "_left", "_most", "_per_s", "_setting", "_since", "_what")

    def __init__(
        self,
        what: str,
        most: int,
        per_s: int,
        setting: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._setting = what, setting
        self._most, self._per_s = most, per_s
        self._clock = clock
        self._left, self._since = float(most), clock()

    def take(self, count: int = 1) -> None:
        """Use some of it up. Raises DenialOfServiceError if nothing is left."""
        self._left -= count
        if self._left < 0:
            now = self._clock()
            regained = (now - self._since) * self._per_s
            self._left = min(self._most, self._left + count + regained) - count
            self._since = now
            if self._left < 0:
                allowed = f"{self._most} {self._what} at once, and {self._per_s} a second"
                raise DenialOfServiceError(f"more than {allowed} ({self._setting})")

    def give(self, count: int) -> None:
        """Refill it."""
        self._left = min(self._most, self._left + count)


class TurnReader(FrameBuffer):
    """Reads frames until a share of a turn is used up.

    Attributes:
        left: what is left of the share.
    """

    def __init__(self) -> None:
        super().__init__(server=True)
        self.left = 0

    @property
    def size(self) -> int:
        """The number of bytes that are not handled."""
        return len(self._data)

    def __next__(self) -> Frame:
        if self.left <= 0:
            raise StopIteration
        frame = super().__next__()
        self.left -= _COSTS.get(frame.__class__, 1)
        return frame


class Http2(H2Connection):
    """The server's side of a connection.

    Args:
        idle: limits its idle frames.

    Attributes:
        reader: reads its frames.
    """

    MAX_CLOSED_STREAMS = CLOSED_STREAMS_MAX

    def __init__(self, idle: Allowance) -> None:
        super().__init__(_CONFIGURATION)
        self.reader = self.incoming_buffer = TurnReader()
        self._idle = idle
        self._looks_from = STREAMS_KEPT

    @property
    def is_over(self) -> bool:
        """Whether one of the sides has announced the end of the connection."""
        return self.state_machine.state is ConnectionState.CLOSED

    @property
    def open_inbound_streams(self) -> int:
        """The number of calls that are open, or a larger one that is still allowed.

        h2 looks at all streams for it, at the beginning of each call.
        """
        count = len(self.streams)
        if count < min(self._looks_from, self.local_settings.max_concurrent_streams):
            return count
        count = super().open_inbound_streams
        self._looks_from = 2 * count + STREAMS_KEPT
        return count

    def send_data(
        self,
        stream_id: int,
        data: bytes | memoryview,
        end_stream: bool = False,
        pad_length: Any = None,
    ) -> None:
        """Send data on a stream; the client may send some more idle frames then."""
        super().send_data(stream_id, data, end_stream, pad_length)
        self._idle.give(len(data) // CREDIT_BYTES)

    def _receive_headers_frame(self, frame: HeadersFrame) -> Frames:
        if frame.stream_id > self.highest_inbound_stream_id:
            self._idle.give(CALL_CREDIT)
        else:  # trailers, or a call that has ended
            self._idle.take()
        return super()._receive_headers_frame(frame)

    def _receive_data_frame(self, frame: DataFrame) -> Frames:
        if self._is_idle(frame):
            self._idle.take()
        return super()._receive_data_frame(frame)

    def _is_idle(self, frame: DataFrame) -> bool:
        """Return whether data is nothing; little of a call that has ended is, too, as a reset answers it."""
        stream = self.streams.get(frame.stream_id)
        if stream is None or stream.closed:
            return len(frame.data) < CREDIT_BYTES
        return not frame.data and "END_STREAM" not in frame.flags

    def _receive_settings_frame(self, frame: SettingsFrame) -> Frames:
        self._idle.take(SETTINGS_WEIGHT)
        kept = {name: value for name, value in frame.settings.items() if name in _SETTINGS}
        if (table := kept.get(SettingCodes.HEADER_TABLE_SIZE)) is not None:
            kept[SettingCodes.HEADER_TABLE_SIZE] = min(table, HEADER_TABLE_BYTES)
        frame.settings = kept
        return super()._receive_settings_frame(frame)

    def _receive_window_update_frame(self, frame: WindowUpdateFrame) -> Frames:
        self._idle.take()
        return super()._receive_window_update_frame(frame)

    def _receive_ping_frame(self, frame: PingFrame) -> Frames:
        self._idle.take()
        return super()._receive_ping_frame(frame)

    def _receive_rst_stream_frame(self, frame: RstStreamFrame) -> Frames:
        self._idle.take()
        return super()._receive_rst_stream_frame(frame)

    def _receive_priority_frame(self, frame: HeadersFrame | PriorityFrame) -> Frames:
        self._idle.take()
        return super()._receive_priority_frame(frame)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> Frames:
        """Report that the client leaves (RFC 9113, 6.8), and no more: h2 would end its calls at once."""
        self._idle.take()
        left = ConnectionTerminated()
        left.error_code = frame.error_code
        return [], [left]

    def _receive_unknown_frame(self, _frame: ExtensionFrame) -> Frames:
        """Ignore a frame of an unknown type (RFC 9113, 5.5)."""
        self._idle.take()
        return [], []
