"""A consumer's pull, whose constant parts are encoded once for each topic.

:func:`frame.encode` defines the bytes; filling in the numbers takes a quarter of the time of a full encode.
"""

from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.frame import encode, with_prefix
from cometmq.wire.headers import PullHeader, fields
from cometmq.wire.json_header import header_format

FORMATS_KEPT: Final = 1_024
"""About one for each topic that a client pulls from; to make one takes longer than a full encode."""
FILLED_IN: Final = ("queue_id", "queue_offset", "max_message_count", "commit_offset")
"""The numbers that differ from pull to pull of a topic, in the order of the header."""


class PullRequest(msgspec.Struct, frozen=True, gc=False):
    """PULL_MESSAGE, with its header in JSON."""

    header: PullHeader

    def encode(self, opaque: int, command_flag: int = 0, credentials: Credentials | None = None) -> bytes:
        """Encode the whole frame, signed if there are credentials.

        Raises ProtocolError if a text is none, or the frame would exceed a limit.
        """
        if credentials is not None:
            request = Command(RequestCode.PULL_MESSAGE, opaque, command_flag, ext_fields=fields(self.header))
            request.ext_fields = signed_fields(request.ext_fields, b"", request.version, credentials)
            return encode(request)
        text = _format(_constants(self.header)) % (*_numbers(self.header), command_flag, opaque)
        return with_prefix(text.encode(), b"")


_WIRE_NAMES: Final = dict(zip(PullHeader.__struct_fields__, PullHeader.__struct_encode_fields__, strict=True))
_CONSTANT: Final = tuple(name for name in _WIRE_NAMES if name not in FILLED_IN)
_constants: Final = attrgetter(*_CONSTANT)
_numbers: Final = attrgetter(*FILLED_IN)


@lru_cache(FORMATS_KEPT)
def _format(constants: tuple[str | int | None, ...]) -> str:
    """Return the format of the header with these values of ``_CONSTANT``; None is left out."""
    texts = dict.fromkeys(FILLED_IN, "%d")
    for name, value in zip(_CONSTANT, constants, strict=True):
        if value is not None:
            texts[name] = str(value).replace("%", "%%")
    ext_fields = {wire_name: texts[name] for name, wire_name in _WIRE_NAMES.items() if name in texts}
    return header_format(RequestCode.PULL_MESSAGE, ext_fields)
