"""The operation on acknowledgements in plain Python: the definition, and what serves until it is compiled."""

import numpy as np

from cometmq.errors import CometMQError
from cometmq.kernels.acks.rows import OFFSET_DIGITS_MAX, TEXT_MAX, AckPoint, AckRows
from cometmq.kernels.frames.rows import Frames
from cometmq.wire.headers import AckHeader, parse


class PlainAcks:
    """The plain body of the operation (a ``rows.AckOps``)."""

    def read(self, frames: Frames, first: int, last: int, into: AckRows, /) -> int:
        """Read acknowledgements: see ``rows.AckOps.read``."""
        texts_end = points = answers_end = 0
        known: object = None
        for count, number in enumerate(range(first, min(last, first + len(into.acks)))):
            command = frames.request(number)
            try:
                header = parse(AckHeader, command.ext_fields)
            except CometMQError:
                break  # as a command it is refused
            group, topic, handle = header.consumer_group, header.topic, header.extra_info
            point_handle, _, offset = handle.rpartition(" ")
            if not (point_handle and offset.isdecimal() and len(offset) <= OFFSET_DIGITS_MAX):
                break
            point = group, topic, header.queue_id, point_handle
            if point != known:
                text = (group + topic + handle).encode()
                if len(text) > min(TEXT_MAX, len(into.texts) - texts_end):
                    break
                group_end, handle_end = texts_end + len(group), texts_end + len(text)
                into.points[points] = AckPoint(
                    header.queue_id, texts_end, group_end, group_end + len(topic), handle_end, 0
                )
                into.texts[texts_end:handle_end] = np.frombuffer(text, np.uint8)
                known, texts_end, points = point, handle_end, points + 1
            answer = np.frombuffer(into.responses.encode(command.opaque), np.uint8)
            into.answers[answers_end : answers_end + len(answer)] = answer
            answers_end += len(answer)
            into.acks[count] = header.offset, answers_end
            into.points[points - 1]["acks_end"] = count + 1
        return points
