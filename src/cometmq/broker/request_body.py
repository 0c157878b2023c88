"""Limits of request bodies, so that no request blocks the loop for long.

Messages have their own limits. Of other requests, heartbeats and lists of topics are the largest; they are
handled in slices. ``docs/back-pressure.md`` lists the time that the largest request of each code takes.
"""

from collections.abc import Sequence, Sized

from cometmq.broker.refused import Refused
from cometmq.wire.bodies import BodyLimits, decode
from cometmq.wire.bodies.body import BodyType
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command


class RequestBodies:
    """Decodes request bodies within limits, each of which is a setting."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits

    def decode(self, body_type: type[BodyType], command: Command, *, is_list: bool = False) -> BodyType:
        """Decode the body of a request.

        Args:
            is_list: whether it is a heartbeat or a list of topics, whose limit is larger.

        Raises FormatError, or Refused if it is too large.
        """
        limits = self._limits
        size_max, setting = limits.usual_bytes, "requestBodyBytesMax"
        if is_list:
            size_max, setting = limits.list_bytes, "requestListBytesMax"
        if len(command.body) > size_max:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"the body of request {command.code} has {len(command.body)} bytes, at most "
                f"{size_max} are taken ({setting}): send less at once",
            )
        return decode(
            body_type,
            command.body,
            lenient_max=limits.usual_bytes,
            nonstandard_max=limits.nonstandard_bytes,
        )

    def check_count(self, what: str, items: Sized, command: Command) -> None:
        """Check that a list is not too long. Raises Refused."""
        if len(items) > self._limits.list_items:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"request {command.code} brings {len(items)} {what}, at most {self._limits.list_items} are "
                "taken (requestListItemsMax): send fewer at once",
            )


def slices(weights: Sequence[int], weight_max: int) -> list[slice]:
    """Divide a list into slices of at most ``weight_max``, or of one item, by the weights of its items."""
    found, begin, weight = [], 0, 0
    for at, own in enumerate(weights):
        if at > begin and weight + own > weight_max:
            found.append(slice(begin, at))
            begin, weight = at, 0
        weight += own
    if begin < len(weights):
        found.append(slice(begin, len(weights)))
    return found
