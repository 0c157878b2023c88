"""The operation on signed requests in plain Python: the definition, and what serves until it is compiled."""

from struct import Struct
from typing import Final

import numpy as np

from cometmq.errors import ProtocolError
from cometmq.kernels.signed.rows import CODES, FIELDS_MAX, KEY_FIELDS, NO_TEXT, SPARE, SignedRows
from cometmq.wire.acl import ADDED_AFTER_SIGNING, SIGNATURE, signed_content
from cometmq.wire.frame import HEADER_LENGTH_MASK, PREFIX_SIZE, SerializeType, decode_parts, frame_end

_WORD: Final = Struct(">I")
_NUMBER: Final = Struct(">i")


class PlainSigned:
    """The plain body of the operation (a ``rows.SignedOps``)."""

    def read(self, data: bytes, begin: int, into: SignedRows, /) -> int:
        """Read signed requests: see ``rows.SignedOps.read``."""
        count, position, texts_end = 0, begin, 0
        while count < len(into.rows) and (end := frame_end(data, position)) >= 0:
            header = position + PREFIX_SIZE
            (word,) = _WORD.unpack_from(data, position + 4)
            body = header + (word & HEADER_LENGTH_MASK)
            if word >> 24 != SerializeType.JSON or len(into.texts) - texts_end < 2 * (body - header) + SPARE:
                break
            found = _texts(data[header:body])
            if found is None:
                break
            places = [texts_end]
            for text in found:
                texts_end += len(text)
                into.texts[places[-1] : texts_end] = np.frombuffer(text, np.uint8)
                places.append(texts_end)
            into.rows[count] = (end, body, *places)
            count, position = count + 1, end
        return count


def _texts(header: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return what is signed of a header, its signature and its key; None if it is left."""
    try:
        command = decode_parts(len(header), header, b"")
        fields = command.ext_fields
        if command.is_response or command.code not in CODES:
            return None
        signed_count = len(fields) - (SIGNATURE in fields)
        if not 0 < signed_count <= FIELDS_MAX or ADDED_AFTER_SIGNING in fields:
            return None
        key = [_NUMBER.pack(command.code), _NUMBER.pack(command.flag)]
        for name in KEY_FIELDS:
            text = fields[name].encode() if name in fields else None
            key.append(_NUMBER.pack(NO_TEXT if text is None else len(text)))
            key.append(text or b"")
        signature = fields.get(SIGNATURE, "").encode()
    except (ProtocolError, UnicodeError):
        return None
    # Without the field that they add after signing, clients of all versions sign alike.
    return signed_content(fields, b"", command.version), signature, b"".join(key)
