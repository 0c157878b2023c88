"""Every exception that CometMQ raises on purpose.

::

    CometMQError
    ├── FormatError            bytes that are not what a format says they are
    │   ├── DamagedRecord      … in a CommitLog record: says where and why
    │   ├── UndecodableBody    … in a message's body that claims to be compressed: has the message as stored
    │   └── IllegalName        a topic or group name that breaks the rules for names
    ├── SettingsError          a setting or a command line value that cannot be used
    │   ├── MissingExtra       an optional part whose packages are not installed: names them and the extra
    │   ├── IllegalType        … an argument of another type than is wanted; also a TypeError
    │   └── IllegalArgument    … an argument whose value cannot be; also a ValueError
    ├── StoreError             the store cannot do what was asked
    │   ├── StoreLocked        another process has the directory open
    │   ├── StoreDamaged       a file that cannot be used as it is: says which, and the remedy
    │   ├── StoreNotWritable   full disk, failed sync, closed: nothing was stored
    │   └── MessageIllegal     the message itself breaks a limit: retrying will not help
    │       └── IllegalField   … a part of it is of another type than is wanted; also a TypeError
    ├── ProtocolError          the peer broke the remoting protocol; the connection is closed
    ├── RemoteError            the peer answered with a code other than success
    │   └── WrongServer        … because it is a server of another kind: says which
    ├── PartlySent             of many messages some were not stored, or may not be: says which
    ├── NetworkError           no connection, connection lost
    │   ├── RequestTimeout     no answer within the time given
    │   └── WrongProtocol      no server of RocketMQ's protocol listens there: says what does
    └── NotFound               what was asked for is not there: says what is, and the remedy
        └── NoRoute            no name server knows a queue for the topic

``retriable`` tells a client's retry loop whether the same request may succeed on another try.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from cometmq.message import StoredMessage


class CometMQError(Exception):
    """The root: catch this to catch everything that CometMQ raises on purpose."""

    retriable: ClassVar[bool] = False


class FormatError(CometMQError):
    """Bytes that are not what the format says they are."""


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
    """A message whose body is marked as compressed and cannot be decompressed: damaged, or too large then.

    Another try would end the same way. In a handler's place it counts as the handler's failure; who pulls can
    go on behind ``message.queue_offset``.

    Attributes:
        message: the message, with its body as it is stored.
        reason: what is wrong with the body.
    """

    def __init__(self, message: "StoredMessage", reason: str) -> None:
        super().__init__(
            f"message {message.message_id} of topic {message.topic!r}, queue {message.queue_id}, queue "
            f"offset {message.queue_offset}: {reason}; pull from {message.queue_offset + 1} to skip it"
        )
        self.message = message
        self.reason = reason


class IllegalName(FormatError):
    """A topic or group name that cannot be used: says which, the limit and the remedy."""


class HeaderError(FormatError):
    """A header field of a command that is missing or ill-typed: the command is refused, not the connection.

    Attributes:
        field: RocketMQ's name of the field, as the wire carries it.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"header field {field}: {reason}")
        self.field = field


class CutRecord(DamagedRecord):
    """A CommitLog record that goes on where the buffer ends; nothing seen of it is wrong.

    A reader of pieces tries again with more bytes. At the end of all bytes it is a torn record.
    """


class SettingsError(CometMQError):
    """A setting or command line value that cannot be used: names it, its limit and the remedy."""


class MissingExtra(SettingsError, ModuleNotFoundError):
    """An optional part of the package that cannot be used: names what is not installed, and the remedy.

    It is an ImportError, too, for programs that try an import.
    """


class IllegalType(SettingsError, TypeError):
    """An argument of another type than is wanted: names it, what was given, and what is wanted."""


class IllegalArgument(SettingsError, ValueError):
    """An argument whose value cannot be: names it, what was given, and what is wanted."""


class StoreError(CometMQError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another process has the store directory open."""


class StoreDamaged(StoreError):
    """A store file that cannot be used as it is: names the file, what is wrong and the remedy."""


class StoreNotWritable(StoreError):
    """The store takes no messages now (full disk, failed sync, closed) or cannot open; nothing was stored."""

    retriable = True


class MessageIllegal(StoreError):
    """The message breaks a limit of the format; nothing was stored and a retry will not help."""


class IllegalField(MessageIllegal, TypeError):
    """A part of a message of another type than is wanted: names it, what was given, and what is wanted."""


class ProtocolError(CometMQError):
    """The peer broke the remoting protocol; its connection must be closed."""


class RemoteError(CometMQError):
    """The peer answered with a code other than success.

    Attributes:
        code: RocketMQ's response code.
        remark: the peer's own text, and behind it in brackets what a client knows of the cause and remedy.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"code {code}: {remark}" if remark else f"code {code}")
        self.code = code
        self.remark = remark


class WrongServer(RemoteError):
    """A server of another kind than was asked for: a broker where a name server was meant, or the reverse."""

    def __str__(self) -> str:
        return self.remark


class PartlySent(CometMQError):
    """Of many messages some were not stored, or may not be.

    Attributes:
        outcomes: the result, or the error, of each message in their order.
    """

    def __init__(self, outcomes: Sequence[object]) -> None:
        failures = [outcome for outcome in outcomes if isinstance(outcome, CometMQError)]
        super().__init__(f"{len(failures)} of {len(outcomes)} messages failed, the first with: {failures[0]}")
        self.outcomes = outcomes


class NetworkError(CometMQError):
    """No connection, or the connection was lost before the answer came."""

    retriable = True


class RequestTimeout(NetworkError):
    """No answer within the time given."""


class WrongProtocol(NetworkError):
    """What listens at an address does not speak RocketMQ's protocol: says what it speaks."""

    retriable = False


class NotFound(CometMQError):
    """What was asked for is not there: a topic, a group, a member, a message."""


class NoRoute(NotFound):
    """No name server knows a queue for the topic.

    Attributes:
        topic: the topic that is not known; None where the topic is, and no broker that could be asked.
    """

    retriable = True

    def __init__(self, reason: str, topic: str | None = None) -> None:
        super().__init__(reason)
        self.topic = topic
