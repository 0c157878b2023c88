"""Receipt handles as gRPC clients get them: those of remoting, and the message's place in the CommitLog.

Nine tokens between single blanks; the last one is for the dead letter, which a broker makes by that place::

    begin_offset pop_time invisible_ms revive_queue_id retry_flag broker_name queue_id offset physical_offset
    2            1795602428484 15000   3               0          broker-a    2        3      6877

A tenth names the worker of the proxy that prolongs the message's invisible time, if there are several: it
alone knows the newest handle (``fellow_workers.py``).

Source: RocketMQ ``common/consumer/ReceiptHandle.java``, which ignores what follows the ninth.
"""

from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt
from cometmq.format.properties import POP_CK
from cometmq.message import StoredMessage
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
        worker: the number of the worker that prolongs the message's invisible time; None for none.
    """

    handle: ReceiptHandle
    physical_offset: int
    worker: int | None = None

    def __str__(self) -> str:
        """Encode the handle."""
        text = f"{self.handle} {self.physical_offset}"
        return text if self.worker is None else f"{text} {self.worker}"

    def check_valid(self, now_ms: int) -> None:
        """Raise Failure if the message's invisible time has passed."""
        over_ms = now_ms - self.handle.pop_time_ms - self.handle.invisible_ms
        if over_ms >= 0:
            raise Failure(
                pb.INVALID_RECEIPT_HANDLE,
                f"receipt handle is expired since {over_ms} ms: the message is delivered again",
            )


def receipt_of(message: StoredMessage, worker: int | None = None) -> ClientReceipt:
    """Return the handle of a message that was popped, which a worker prolongs, or none."""
    return ClientReceipt(parse_receipt(message.properties[POP_CK]), message.physical_offset, worker)


def parse_client_receipt(text: str) -> ClientReceipt:
    """Decode a handle; what follows the tenth token is ignored. Raises Failure."""
    tokens = text.split(" ")
    try:
        handle = parse_receipt(" ".join(tokens[:_TOKENS]))
    except FormatError as error:
        raise Failure(pb.INVALID_RECEIPT_HANDLE, str(error)) from None
    ninth, tenth = (_number(token) for token in [*tokens[_TOKENS:], "", ""][:2])
    return ClientReceipt(handle, _UNKNOWN if ninth is None else ninth, tenth)


def _number(token: str) -> int | None:
    is_number = token.isdecimal() and token.isascii() and len(token) <= _DIGITS_MAX
    return int(token) if is_number else None
