"""Every exception that CometMQ raises on purpose.

::

    CometMQError
    ├── FormatError            bytes that do not follow their format
    │   ├── DamagedRecord      … in a CommitLog record: has the position and the failed check
    │   │   └── CutRecord      … of which the buffer holds only the beginning
    │   ├── UndecodableBody    … in a compressed message body: has the message as stored
    │   ├── HeaderError        a header field of a command that is missing or ill-typed: has its name
    │   └── IllegalName        a topic or group name that breaks the rules for names
    ├── SettingsError          a setting or a command line value that cannot be used
    │   ├── MissingExtra       an optional part whose packages are not installed: names them and the extra
    │   ├── IllegalType        … an argument of the wrong type; also a TypeError
    │   └── IllegalArgument    … an argument with a wrong value; also a ValueError
    ├── StoreError             the store cannot do what was asked
    │   ├── StoreLocked        another process has the directory open
    │   ├── StoreDamaged       a file that cannot be used as it is: names the file and the remedy
    │   ├── StoreNotWritable   full disk, failed sync, closed: nothing was stored
    │   ├── LogDiverged        what a master sends does not continue a slave's log: nothing was stored
    │   └── MessageIllegal     the message itself breaks a limit: a retry will not help
    │       └── IllegalField   … one of its fields has the wrong type; also a TypeError
    ├── ProtocolError          the peer broke the remoting protocol; the connection is closed
    ├── RemoteError            the peer answered with a code other than success
    │   └── WrongServer        … because it is a server of another kind: says which
    ├── PartlySent             some of several messages were not stored, or may not be: has each outcome
    ├── PartlyResent           some of several dead letters were not sent again: has their ids
    ├── NetworkError           no connection, or the connection was lost
    │   ├── RequestTimeout     no answer within the timeout
    │   ├── TLSError           no agreement about TLS: a certificate that is not accepted, no common version
    │   ├── WrongProtocol      the server at the address does not speak RocketMQ: says what it speaks
    │   └── UnreadableAnswer   the server at the address answers what cannot be read: says what
    ├── AccessError            a user, a policy or a permission is refused: has RocketMQ's text
    ├── ReceiptExpired         a popped message's invisible time has passed: it is delivered again
    └── NotFound               a topic, group, member or message does not exist: has the remedy
        └── NoRoute            no name server knows a queue of the topic
            └── NoBroker       … because it knows no broker at all, or no master

``retriable`` says whether the same request may succeed if it is sent again; clients' retry loops read it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from cometmq.admin.messages import ResendResult
    from cometmq.client.producer.send_result import SendResult
    from cometmq.message import StoredMessage

REMAINING_SHOWN_MAX: Final = 100
"""Most dead letters that one error names."""


class CometMQError(Exception):
    """The root of all exceptions that CometMQ raises on purpose."""

    retriable: ClassVar[bool] = False


class FormatError(CometMQError):
    """Bytes that do not follow their format."""


class DamagedRecord(FormatError):
    """A CommitLog record that fails its checks.

    Attributes:
        position: where the record begins in the buffer that was read, in bytes.
        reason: which check failed, with the numbers.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"record at {position}: {reason}")
        self.position = position
        self.reason = reason


class UndecodableBody(FormatError):
    """A message whose body is marked as compressed but cannot be decompressed, or would become too large.

    A retry fails the same way. A consumer handles it like a failure of its handler; after a pull the reader
    can go on behind ``message.queue_offset``.

    Attributes:
        message: the message, with its body as it is stored.
        reason: what is wrong with the body.
    """

    def __init__(self, message: "StoredMessage", reason: str) -> None:
        super().__init__(
            f"message {message.message_id} of topic {message.topic!r}, queue {message.queue_id}, queue "
            f"offset {message.queue_offset}: {reason}; pull from {message.queue_offset + 1} to skip it, or, "
            "if it was popped, acknowledge it"
        )
        self.message = message
        self.reason = reason


class IllegalName(FormatError):
    """A topic or group name that cannot be used; the text has the name, the limit and the remedy."""


class HeaderError(FormatError):
    """A header field of a command that is missing or ill-typed: the command is refused, not the connection.

    Attributes:
        field: RocketMQ's name of the field, as the wire carries it.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"header field {field}: {reason}")
        self.field = field


class CutRecord(DamagedRecord):
    """A CommitLog record of which the buffer holds only the beginning; no check of that part failed.

    A reader of pieces tries again with more bytes. At the end of all bytes it is a torn record.
    """


class SettingsError(CometMQError):
    """A setting or command line value that cannot be used; the text has its name, limit and remedy."""


class MissingExtra(SettingsError, ModuleNotFoundError):
    """An optional part whose dependencies are not installed; the text names them and the extra.

    It is also an ImportError, for programs that try an import.
    """


class IllegalType(SettingsError, TypeError):
    """An argument of the wrong type; the text has its name, its value and the type to give."""


class IllegalArgument(SettingsError, ValueError):
    """An argument with a value that is not allowed; the text has its name, its value and what to give."""


class StoreError(CometMQError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another process has the store directory open."""


class StoreDamaged(StoreError):
    """A store file that cannot be used as it is; the text has the file, what is wrong and the remedy."""


class StoreNotWritable(StoreError):
    """The store cannot append now (full disk, failed sync, closed) or cannot open; nothing was stored."""

    retriable = True


class LogDiverged(StoreError):
    """What a master sends does not continue this log, so nothing of it is appended."""


class MessageIllegal(StoreError):
    """The message breaks a limit of the format; nothing was stored and a retry will not help."""


class IllegalField(MessageIllegal, TypeError):
    """A field of a message with the wrong type; the text has its name, its value and the type to give."""


class ProtocolError(CometMQError):
    """The peer broke the remoting protocol; its connection must be closed."""


class RemoteError(CometMQError):
    """The peer answered with a code other than success.

    Attributes:
        code: RocketMQ's response code.
        remark: the peer's own text; a client may add the cause and the remedy in brackets.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"code {code}: {remark}" if remark else f"code {code}")
        self.code = code
        self.remark = remark


class WrongServer(RemoteError):
    """The peer is another kind of server than expected: a broker instead of a name server, or the reverse."""

    def __str__(self) -> str:
        return self.remark


class PartlySent(CometMQError):
    """Some of several messages were not stored, or may not be.

    Attributes:
        outcomes: the result or the error of each message, in the order of the messages.
    """

    def __init__(self, outcomes: "Sequence[SendResult | CometMQError]") -> None:
        failures = [one for one in enumerate(outcomes) if isinstance(one[1], CometMQError)]
        index, first = failures[0]
        super().__init__(
            f"{len(failures)} of {len(outcomes)} messages failed, the first is message {index}: {first}"
        )
        self.outcomes = outcomes


class PartlyResent(CometMQError):
    """Some of several dead letters were sent again; then one failed, and no further one was sent.

    Attributes:
        sent: where those are stored that were sent.
        remaining: the offset ids of the others; the first one failed.
    """

    def __init__(
        self, sent: "Sequence[ResendResult]", remaining: Sequence[str], failure: CometMQError
    ) -> None:
        shown = ", ".join(remaining[:REMAINING_SHOWN_MAX])
        more = len(remaining) - REMAINING_SHOWN_MAX
        super().__init__(
            f"{len(sent)} of {len(sent) + len(remaining)} dead letters were sent again, then {remaining[0]} "
            f"failed: {failure}; choose only what remains the next time: {shown}"
            + (f" and the {more} listed after them" if more > 0 else "")
        )
        self.sent = sent
        self.remaining = remaining


class NetworkError(CometMQError):
    """No connection, or the connection was lost before the answer came."""

    retriable = True


class RequestTimeout(NetworkError):
    """No answer came within the timeout."""


class TLSError(NetworkError):
    """TLS with a server failed; the text says why, and what to do.

    A certificate is not accepted by this side or the other, or there is no common version or cipher.
    """

    retriable = False


class WrongProtocol(NetworkError):
    """The server at an address does not speak RocketMQ's protocol; the text says what it speaks."""

    retriable = False


class UnreadableAnswer(NetworkError):
    """The server at an address answers what cannot be read; the text says what is wrong with it."""

    retriable = False
    what: ClassVar[str] = "answers what cannot be read"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} {self.what}: {reason}; see which version runs there, and its log")


class AccessError(CometMQError):
    """A user or a policy cannot be made or changed, or a request is not allowed; with RocketMQ's text."""


class ReceiptExpired(CometMQError):
    """The invisible time of a popped message has passed: the broker delivers it again, to any member."""


class NotFound(CometMQError):
    """A topic, a group, a member or a message does not exist."""


class NoRoute(NotFound):
    """No name server knows a queue of the topic.

    Attributes:
        topic: the unknown topic; None if the topic is known but none of its brokers can be asked.
    """

    retriable = True

    def __init__(self, reason: str, topic: str | None = None) -> None:
        super().__init__(reason)
        self.topic = topic


class NoBroker(NoRoute):
    """The name server knows no broker, or no master where one is needed; the text has the remedy."""
