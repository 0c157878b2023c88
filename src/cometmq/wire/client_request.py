"""Encode any request of a client."""

from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.command import Command
from cometmq.wire.frame import encode
from cometmq.wire.pull_request import PullRequest
from cometmq.wire.send_request import SendRequest

ClientRequest = Command | SendRequest | PullRequest
"""A request: most are commands, and the two that are sent most often have an encoding of their own."""


def encode_request(
    request: ClientRequest, opaque: int, flag: int = 0, credentials: Credentials | None = None
) -> bytes:
    """Encode the frame of any request with its opaque number, signed if there are credentials.

    Raises ProtocolError like ``frame.encode``.
    """
    if not isinstance(request, Command):
        return request.encode(opaque, flag, credentials)
    request.opaque = opaque
    request.flag |= flag
    if credentials is not None:
        request.ext_fields = signed_fields(request.ext_fields, request.body, request.version, credentials)
    return encode(request)
