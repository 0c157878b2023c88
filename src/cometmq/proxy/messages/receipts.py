"""Receipt handles as gRPC clients get them: those of remoting, and the message's place in the CommitLog.

Nine tokens between single blanks; the last one is for the dead letter, which a broker makes by that place::

    begin_offset pop_time invisible_ms revive_queue_id retry_flag broker_name queue_id offset physical_offset
    2            1795602428484 15000   3               0          broker-a    2        3      6877

Source: RocketMQ ``common/consumer/ReceiptHandle.java``.
"""

from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure

_TOKENS: Final = 8
_UNKNOWN: Final = -1
_DIGITS_MAX: Final = 19


class ClientReceipt(NamedTuple):
    """A receipt handle in a client's hands.

    Attributes:
        handle: the handle by which the broker knows the message.
        physical_offset: of the message's record; -1 if it is not known.
    """

    handle: ReceiptHandle
    physical_offset: int

    def __str__(self) -> str:
        """Encode the handle."""
        return f"{self.handle} {self.physical_offset}"

    def check_valid(self, now_ms: int) -> None:
        """Raise Failure if the message's invisible time has passed."""
        over_ms = now_ms - self.handle.pop_time_ms - self.handle.invisible_ms
        if over_ms >= 0:
            raise Failure(
                pb.INVALID_RECEIPT_HANDLE,
                f"receipt handle is expired since {over_ms} ms: the message is delivered again",
            )


def parse_client_receipt(text: str) -> ClientReceipt:
    """Decode a handle; what follows the ninth token is ignored. Raises Failure."""
    tokens = text.split(" ")
    try:
        handle = parse_receipt(" ".join(tokens[:_TOKENS]))
    except FormatError as error:
        raise Failure(pb.INVALID_RECEIPT_HANDLE, str(error)) from None
    ninth = tokens[_TOKENS] if len(tokens) > _TOKENS else ""
    is_offset = ninth.isdecimal() and ninth.isascii() and len(ninth) <= _DIGITS_MAX
    return ClientReceipt(handle, int(ninth) if is_offset else _UNKNOWN)
