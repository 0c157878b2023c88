"""The request boundary: every failure to answer a request becomes an error response here.

A failure of one request must affect neither the connection, nor the other requests of the same socket
read, nor the event loop. So this is the one place that catches every exception. A handler draws the
boundary around as few requests as it answers together: a single request, or the sends of one batch.
"""

from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, Protocol

from cometmq.errors import FormatError, ProtocolError
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response

REMARK: Final = "internal error ({}): the server's log has the details"

_log = get_logger(__name__)
_P = ParamSpec("_P")


class Answerer(Protocol):
    """The connection over which a response is sent: a server's session, or a client's connection."""

    def send(self, data: Buffer | Command) -> None:
        """Send an encoded frame, or encode and send a command, soon."""
        ...


def attempt(
    peer: Answerer,
    commands: Sequence[Command],
    handle: Callable[_P, None],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> None:
    """Call ``handle``; if it raises, answer each of ``commands`` that expects a response with SYSTEM_ERROR.

    The response to a mistake of the peer (a missing field, an illegal name) has the full text of the error.
    For an internal error it has only the type, and the log has the traceback: the text may name files and
    values.
    """
    try:
        handle(*args, **kwargs)
    except (ProtocolError, FormatError) as error:
        _log.info("refused a request of %s: %.500s", peer, error)
        remark = str(error)
    except Exception as error:  # noqa: BLE001 the request boundary: see the module's text
        _log.exception("failed to answer %s: %s", peer, ", ".join(map(str, commands)) or "no request")
        remark = REMARK.format(type(error).__name__)
    else:
        return
    for command in commands:
        if not command.is_response and not command.is_oneway:
            peer.send(response(command, ResponseCode.SYSTEM_ERROR, remark))
