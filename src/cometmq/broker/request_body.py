"""What a request may bring in its body: so much that answering it holds up the loop for a blink only.

Messages have limits of their own. Of what else a client can send, heartbeats and lists of topics are the
largest; they are handled a slice at a time. ``docs/back-pressure.md`` has what the largest request of each
code costs.
"""

from collections.abc import Sequence, Sized
from typing import Final

from cometmq.broker.refused import Refused
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.body import NONSTANDARD_LENGTH_MAX, USUAL_LENGTH_MAX, BodyType
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command

LIST_SIZE_MAX: Final = 512 * 1024
"""Bytes of a heartbeat, or of a list of topics."""
ITEMS_MAX: Final = 4_000
"""Groups or subscriptions in a heartbeat, topics in a list."""


def decode_request(body_type: type[BodyType], command: Command, size_max: int = USUAL_LENGTH_MAX) -> BodyType:
    """Decode the body of a request. Raises FormatError, or Refused if it is too large."""
    if len(command.body) > size_max:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"the body of request {command.code} has {len(command.body)} bytes, at most "
            f"{size_max} are taken: send less at once",
        )
    return decode(
        body_type, command.body, lenient_max=USUAL_LENGTH_MAX, nonstandard_max=NONSTANDARD_LENGTH_MAX
    )


def check_count(what: str, items: Sized, command: Command) -> None:
    """Check that a list is not too long. Raises Refused."""
    if len(items) > ITEMS_MAX:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"request {command.code} brings {len(items)} {what}, at most {ITEMS_MAX} are taken: "
            "send fewer at once",
        )


def slices(weights: Sequence[int], weight_max: int) -> list[slice]:
    """Divide a list whose items weigh so much into slices that weigh no more, or are one item."""
    found, begin, weight = [], 0, 0
    for at, own in enumerate(weights):
        if at > begin and weight + own > weight_max:
            found.append(slice(begin, at))
            begin, weight = at, 0
        weight += own
    if begin < len(weights):
        found.append(slice(begin, len(weights)))
    return found
