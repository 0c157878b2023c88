"""The operation on acknowledgements in plain Python: the definition, and what serves until it is compiled."""

from typing import Final

import numpy as np

from cometmq.kernels.acks.rows import OFFSET_DIGITS_MAX, ROWS_END, TEXT_MAX, AckRows
from cometmq.kernels.headers.plain import RequestFrames
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import frame_end
from cometmq.wire.headers import AckHeader

_FRAMES: Final = RequestFrames({RequestCode.ACK_MESSAGE: AckHeader})


class PlainAcks:
    """The plain body of the operation (a ``rows.AckOps``)."""

    body = "plain"

    def read(self, data: bytes, begin: int, into: AckRows, /) -> int:
        """Read acknowledgements: see ``rows.AckOps.read``."""
        count, position, texts_end, points, answers_end = 0, begin, 0, 0, 0
        known: object = None
        while count < len(into.rows) and (end := frame_end(data, position)) >= 0:
            found = _FRAMES.request(data, position, end)
            if found is None:
                break
            command, header = found
            assert isinstance(header, AckHeader)
            group, topic, handle = header.consumer_group, header.topic, header.extra_info
            point_handle, _, number = handle.rpartition(" ")
            if not (point_handle and number.isdecimal() and len(number) <= OFFSET_DIGITS_MAX):
                break
            point = group, topic, header.queue_id, point_handle
            if point != known:
                text = (group + topic + handle).encode()
                if len(text) > min(TEXT_MAX, len(into.texts) - texts_end):
                    break
                group_end, handle_end = texts_end + len(group), texts_end + len(text)
                into.points[points, :ROWS_END] = (
                    *(header.queue_id, texts_end, group_end, group_end + len(topic), handle_end),
                )
                into.texts[texts_end:handle_end] = np.frombuffer(text, np.uint8)
                known, texts_end, points = point, handle_end, points + 1
            answer = np.frombuffer(into.responses.encode(command.opaque), np.uint8)
            into.answers[answers_end : answers_end + len(answer)] = answer
            answers_end += len(answer)
            into.rows[count] = end, header.offset, answers_end
            count, position = count + 1, end
            into.points[points - 1, ROWS_END] = count
        return points
