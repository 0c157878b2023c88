"""Success responses with fixed field names, encoded without building a command.

The responses to sends differ only in a few values. :func:`frame.encode` defines the bytes; a template
produces the same bytes in a fraction of the time.
"""

import struct
from collections.abc import Mapping
from typing import Final

from cometmq.wire.codes import LANGUAGE, LANGUAGES, VERSION, ResponseCode
from cometmq.wire.frame import RESPONSE_FLAG, Command, SerializeType, encode, response

_PREFIX: Final = struct.Struct(">iI")
_BINARY_START: Final = struct.Struct(">iIhBhii")  # up to the flag
_BINARY_HEAD: Final = struct.Struct(">iIhBh")  # up to the opaque number
_BINARY_FIXED_SIZE: Final = _BINARY_START.size - _PREFIX.size + 4  # with the length of the fields
_OPAQUE_AT: Final = 5
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_JSON_WORD: Final = SerializeType.JSON << 24
_BINARY_WORD: Final = SerializeType.ROCKETMQ << 24
_LANGUAGE_NUMBER: Final = LANGUAGES.index(LANGUAGE)
_SENTINEL_OPAQUE: Final = 2_071_831_193
_NUMBER_LENGTH_MAX: Final = len(str(-(2**31)))
"""Most characters of an opaque number."""
_LENGTHS: Final = tuple(_INT.pack(length) for length in range(256))
"""Encoded lengths: a look-up is cheaper than packing; lengths of 256 and more are packed."""


class ResponseTemplate:
    """A template of success responses.

    Args:
        names: the fields whose values differ. The last one may hold any text; the others hold only ASCII
            letters, digits, blanks, commas and semicolons, which need no escaping.
        constants: the fields whose values are always the same.
    """

    def __init__(
        self, names: tuple[str, ...], constants: Mapping[str, str], remark: str | None = None
    ) -> None:
        self._names = names
        self._constants = dict(constants)
        self._remark = remark
        self._binary_remark = _binary_text(remark or "", _INT)
        self._json_pieces = self._split_sample()
        *before, last = (piece.replace("%", "%%") for piece in self._json_pieces)
        self._json = "%s".join(before) + "%d" + last
        self._binary_names = [_binary_text(name, _SHORT) for name in names]
        self._binary_constants = b"".join(
            _binary_text(name, _SHORT) + _binary_text(value, _INT) for name, value in constants.items()
        )

    def encode(self, request: Command, values: tuple[str, ...], body_size: int = 0) -> bytes:
        """Encode the frame of the response to ``request`` without its body, which follows it.

        Args:
            values: in the order of the names.
        """
        if request.serialize_type is SerializeType.ROCKETMQ:
            return self._encode_binary(request.opaque, values, body_size)
        text = values[-1]
        if text.isascii() and text.isalnum():
            header = (self._json % (*values, request.opaque)).encode()
        else:  # JSON may have to escape it
            fields = dict(zip(self._names, values, strict=True)) | self._constants
            header = encode(response(request, remark=self._remark, ext_fields=fields))[_PREFIX.size :]
        return _PREFIX.pack(4 + len(header) + body_size, _JSON_WORD | len(header)) + header

    def pieces(self) -> list[bytes]:
        """Return the constant pieces between the values, for kernels that encode many responses at once.

        JSON: the pieces before each value, before the opaque number, and after it. Then binary: the pieces
        before the opaque number, before the length of the fields, before each value's length, and at the end.
        """
        start = _BINARY_START.pack(0, 0, ResponseCode.SUCCESS, _LANGUAGE_NUMBER, VERSION, 0, RESPONSE_FLAG)
        start = start[_PREFIX.size :] + self._binary_remark
        json = [piece.encode() for piece in self._json_pieces]
        return [
            *json,
            start[:_OPAQUE_AT],
            start[_OPAQUE_AT + 4 :],
            *self._binary_names,
            self._binary_constants,
        ]

    def _encode_binary(self, opaque: int, values: tuple[str, ...], body_size: int) -> bytes:
        parts: list[bytes] = []
        for name, value in zip(self._binary_names, values, strict=True):
            text = value.encode()
            size = len(text)
            parts += (name, _LENGTHS[size] if size < 256 else _INT.pack(size), text)
        parts.append(self._binary_constants)
        fields = b"".join(parts)
        size = _BINARY_FIXED_SIZE + len(self._binary_remark) + len(fields)
        start = _BINARY_START.pack(
            4 + size + body_size,
            _BINARY_WORD | size,
            ResponseCode.SUCCESS,
            _LANGUAGE_NUMBER,
            VERSION,
            opaque,
            RESPONSE_FLAG,
        )
        return b"".join((start, self._binary_remark, _INT.pack(len(fields)), fields))

    def _split_sample(self) -> list[str]:
        """Encode a sample in JSON, and split it at the values and the opaque number."""
        marks = [f"\N{SECTION SIGN}{number}" for number in range(len(self._names))]
        fields = dict(zip(self._names, marks, strict=True)) | self._constants
        sample = Command(
            ResponseCode.SUCCESS,
            opaque=_SENTINEL_OPAQUE,
            flag=RESPONSE_FLAG,
            remark=self._remark,
            ext_fields=fields,
        )
        rest = encode(sample)[_PREFIX.size :].decode()
        pieces = []
        for mark in (*marks, str(_SENTINEL_OPAQUE)):
            piece, _, rest = rest.partition(mark)
            pieces.append(piece)
        return [*pieces, rest]


class EmptyResponses:
    """Success responses in JSON that have neither fields nor a body.

    Attributes:
        before, behind: what is around the opaque number.
        size_max: most bytes of a response.
    """

    def __init__(self) -> None:
        self.before, self.behind, *_ = NumbersTemplate(None, ()).around(())
        size = len(self.before) + len(self.behind)
        lengths = range(_NUMBER_LENGTH_MAX + 1)
        self._starts = [_PREFIX.pack(4 + size + length, size + length) + self.before for length in lengths]
        self.size_max = _PREFIX.size + size + _NUMBER_LENGTH_MAX

    def encode(self, opaque: int) -> bytes:
        """Encode the frame of the response to the request with this opaque number, an int32."""
        number = b"%d" % opaque
        return b"".join((self._starts[len(number)], number, self.behind))


class NumbersTemplate:
    """A template of success responses with a body, optionally a remark, and fields that are numbers.

    Args:
        names: the names of the fields.
    """

    def __init__(self, remark: str | None, names: tuple[str, ...]) -> None:
        numbers = range(_SENTINEL_OPAQUE + 1, _SENTINEL_OPAQUE + 1 + len(names))
        fields = {name: str(number) for name, number in zip(names, numbers, strict=True)}
        sample = Command(
            ResponseCode.SUCCESS, _SENTINEL_OPAQUE, RESPONSE_FLAG, remark=remark, ext_fields=fields
        )
        self._json_pieces = []
        rest = encode(sample)[_PREFIX.size :].decode()
        for number in (*numbers, _SENTINEL_OPAQUE):
            piece, _, rest = rest.partition(str(number))
            self._json_pieces.append(piece)
        self._json_pieces.append(rest)
        self._json = "%d".join(piece.replace("%", "%%") for piece in self._json_pieces)
        self._names = [_binary_text(name, _SHORT) for name in names]
        self._binary = _BINARY_HEAD.pack(0, 0, ResponseCode.SUCCESS, _LANGUAGE_NUMBER, VERSION)[
            _PREFIX.size :
        ]
        self._flag_and_remark = _INT.pack(RESPONSE_FLAG) + _binary_text(remark or "", _INT)

    def pieces(self) -> list[bytes]:
        """Return the constant pieces between the numbers, for kernels that encode many responses at once.

        JSON: the pieces before each number, before the opaque number, and after it. Then binary: the pieces
        before the opaque number, before the length of the fields, before each number's length, and at the
        end.
        """
        json = [piece.encode() for piece in self._json_pieces]
        return [*json, self._binary, self._flag_and_remark, *self._names, b""]

    def encode(self, request: Command, numbers: tuple[int, ...], body_size: int) -> bytes:
        """Encode the frame of the response to ``request`` without its body, which follows it."""
        is_binary = request.serialize_type is SerializeType.ROCKETMQ
        return self.start(request.opaque, numbers, body_size, is_binary=is_binary)

    def start(self, opaque: int, numbers: tuple[int, ...], body_size: int, *, is_binary: int) -> bytes:
        """Encode the same for a request that is no command: by its opaque number and serialization."""
        if is_binary:
            header = self._binary_header(opaque, numbers)
            return _PREFIX.pack(4 + len(header) + body_size, _BINARY_WORD | len(header)) + header
        header = (self._json % (*numbers, opaque)).encode()
        return _PREFIX.pack(4 + len(header) + body_size, _JSON_WORD | len(header)) + header

    def around(self, numbers: tuple[int, ...]) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the bytes before and after the opaque number, for responses that are sent repeatedly.

        First for JSON, then for the ROCKETMQ serialization, where the opaque number takes four bytes.
        """
        *before, behind = self._json_pieces
        json = "%d".join(piece.replace("%", "%%") for piece in before) % numbers
        return json.encode(), behind.encode(), self._binary, self._behind_opaque(numbers)

    def _binary_header(self, opaque: int, numbers: tuple[int, ...]) -> bytes:
        return b"".join((self._binary, _INT.pack(opaque), self._behind_opaque(numbers)))

    def _behind_opaque(self, numbers: tuple[int, ...]) -> bytes:
        parts: list[bytes] = []
        for name, number in zip(self._names, numbers, strict=True):
            text = b"%d" % number
            parts += (name, _LENGTHS[len(text)], text)
        fields = b"".join(parts)
        return b"".join((self._flag_and_remark, _INT.pack(len(fields)), fields))


def _binary_text(text: str, length_format: struct.Struct) -> bytes:
    data = text.encode()
    return length_format.pack(len(data)) + data
