"""Transaction ids as clients get them: all that a broker must know to end the transaction.

The proxy so keeps no table of open transactions: any proxy can end one, also after a restart. An id is
URL-safe Base64 of five words between single blanks::

    v1 broker_name half_offset physical_offset unique_id
"""

import base64
from typing import Annotated, Final, NamedTuple

import msgspec

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure

_VERSION: Final = "v1"
_SHOWN_LENGTH: Final = 60
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class HalfMessageId(NamedTuple):
    """A half message at its broker.

    Attributes:
        half_offset: its offset in the half topic's queue.
        physical_offset: of its record.
        unique_id: the message's unique id.
    """

    broker_name: str
    half_offset: _Offset
    physical_offset: _Offset
    unique_id: str

    def __str__(self) -> str:
        """Encode the id."""
        words = (_VERSION, self.broker_name, str(self.half_offset), str(self.physical_offset), self.unique_id)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()


def parse_transaction_id(text: str) -> HalfMessageId:
    """Decode a transaction id. Raises Failure."""
    if not text.strip():
        raise Failure(pb.INVALID_TRANSACTION_ID, "the transaction id is empty: give that of the half message")
    try:
        version, *words = base64.b64decode(text, altchars=b"-_", validate=True).decode().split(" ", 4)
        found = msgspec.convert(words, HalfMessageId, strict=False) if version == _VERSION else None
    except (ValueError, msgspec.ValidationError):
        found = None
    if found is None:
        raise Failure(
            pb.INVALID_TRANSACTION_ID,
            f"{text[:_SHOWN_LENGTH]!r} is not a transaction id of a proxy: give that of the half message",
        )
    return found
