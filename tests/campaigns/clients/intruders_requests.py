"""Requests that must not pass: unsigned, forged, truncated, replayed with a change, and written oddly."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from enum import Enum
from struct import pack
from typing import Final, NamedTuple

from tests.kit.request_bodies import BODIES, fields_with_names

from cometmq.wire.acl import ACCESS_KEY, SIGNATURE, Credentials, signed_fields
from cometmq.wire.bodies import encode as encode_body
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    Command,
    SerializeType,
    encode,
    with_prefix,
)
from cometmq.wire.requests import TO_BROKERS

SIGNATURE_SIZE: Final = 20
"""Bytes of an HMAC-SHA1."""


class Kind(Enum):
    """How a request tries to pass."""

    UNSIGNED = "unsigned"
    FORGED = "forged"
    TRUNCATED = "truncated"
    CHANGED = "replayed with a change"
    ODD = "written oddly"
    UNANSWERED = "one-way, or as an answer"


class Intrusion(NamedTuple):
    """A request that must be refused.

    Attributes:
        frame: its bytes.
        is_answered: whether it is one that is answered; a cut frame, for one, ends its connection.
    """

    kind: Kind
    frame: bytes
    is_answered: bool = True


class Intruder:
    """Builds such requests of all codes.

    Args:
        listened: the credentials of requests that the intruder has read on their way: it knows signed
            requests, and not the secret.
    """

    def __init__(self, topic: str, listened: Credentials, chance: random.Random) -> None:
        self._topic = topic
        self._listened = listened
        self._chance = chance
        self._makers: tuple[Callable[[Command], Intrusion], ...] = (
            self._unsigned,
            self._forged,
            self._truncated,
            self._changed,
            self._odd,
            self._unanswered,
        )

    def intrusions(self) -> Iterator[Intrusion]:
        """Build requests without end: of each code in each way, then again with other values."""
        opaque = 0
        while True:
            for code in TO_BROKERS:
                for make in self._makers:
                    opaque = (opaque + 1) & 0x7FFF_FFFF
                    yield make(self._request(code, opaque))

    def _request(self, code: RequestCode, opaque: int) -> Command:
        line = TO_BROKERS[code]
        body = encode_body(BODIES[line.body], standard=True) if line.body in BODIES else b"x"
        kind = self._chance.choice((SerializeType.JSON, SerializeType.ROCKETMQ))
        if code > 0x7FFF:
            kind = SerializeType.JSON  # the binary header has 16 bits for it
        fields = fields_with_names(line, self._topic)
        return Command(code, opaque, ext_fields=fields, body=body, serialize_type=kind)

    def _signed(self, command: Command) -> dict[str, str]:
        return signed_fields(command.ext_fields, command.body, command.version, self._listened)

    def _unsigned(self, command: Command) -> Intrusion:
        name = self._listened.access_key
        fields: dict[str, str] = self._chance.choice(
            ({}, {ACCESS_KEY: ""}, {ACCESS_KEY: name}, {SIGNATURE: self._guess()}, {ACCESS_KEY.lower(): name})
        )
        command.ext_fields |= fields
        return Intrusion(Kind.UNSIGNED, encode(command))

    def _forged(self, command: Command) -> Intrusion:
        name = self._chance.choice((self._listened.access_key, "nobody", "", "\0", "ü" * 100))
        command.ext_fields |= {ACCESS_KEY: name, SIGNATURE: self._guess()}
        return Intrusion(Kind.FORGED, encode(command))

    def _truncated(self, command: Command) -> Intrusion:
        fields = self._signed(command)
        if self._chance.random() < 0.9:
            fields[SIGNATURE] = fields[SIGNATURE][: self._chance.randrange(28)]
            command.ext_fields = fields
            return Intrusion(Kind.TRUNCATED, encode(command))
        command.ext_fields = fields
        frame = encode(command)
        return Intrusion(Kind.TRUNCATED, frame[: self._chance.randrange(1, len(frame))], is_answered=False)

    def _changed(self, command: Command) -> Intrusion:
        fields = self._signed(command)
        names = [name for name in fields if name not in (ACCESS_KEY, SIGNATURE)]
        way = self._chance.randrange(3)
        if way == 0 or not names:
            command.body += b"y"
        elif way == 1:
            fields[self._chance.choice(names)] += "1"
        else:
            fields["zz"] = "1"
        command.ext_fields = fields
        return Intrusion(Kind.CHANGED, encode(command))

    def _odd(self, command: Command) -> Intrusion:
        """Write a signed request's header so that one reader may find the signed values, another others."""
        fields = self._signed(command)
        names = [name for name in fields if name not in (ACCESS_KEY, SIGNATURE)]
        name = self._chance.choice(names or [ACCESS_KEY])
        changed = fields | {name: fields[name] + "1"}
        if command.serialize_type is SerializeType.ROCKETMQ:
            return Intrusion(Kind.ODD, _binary(command, [*fields.items(), (name, changed[name])]))
        own = f'"code":{int(command.code)},"flag":0,"language":"JAVA","opaque":{command.opaque},"version":479'
        signed, other = json.dumps(fields), json.dumps(changed)
        twice = f"{signed[:-1]},{json.dumps(name)}:{json.dumps(changed[name])}}}"
        header = self._chance.choice(
            (
                f'{{{own},"extFields":{twice}}}',
                f'{{{own},"extFields":{signed},"extFields":{other}}}',
                f'{{"extFields":{signed},{own},"extFields":{other}}}',
                f'{{{own},"extFields":{signed},"extFields":null}}',
                f'{{ {own} , "extFields" : {twice} }}',
            )
        )
        return Intrusion(Kind.ODD, with_prefix(header.encode(), command.body))

    def _unanswered(self, command: Command) -> Intrusion:
        command.flag = self._chance.choice((ONEWAY_FLAG, RESPONSE_FLAG, ONEWAY_FLAG | RESPONSE_FLAG))
        command.ext_fields |= {ACCESS_KEY: self._listened.access_key, SIGNATURE: self._guess()}
        return Intrusion(Kind.UNANSWERED, encode(command), is_answered=False)

    def _guess(self) -> str:
        return base64.b64encode(self._chance.randbytes(SIGNATURE_SIZE)).decode()


def _binary(command: Command, fields: list[tuple[str, str]]) -> bytes:
    """Encode a request with a ROCKETMQ header that has these fields, a name twice if it is there twice."""
    parts = [pack(">hBhiii", command.code, 0, 479, command.opaque, 0, 0)]
    texts = [(name.encode(), value.encode()) for name, value in fields]
    content = b"".join(pack(">h", len(n)) + n + pack(">i", len(v)) + v for n, v in texts)
    header = b"".join((*parts, pack(">i", len(content)), content))
    return with_prefix(header, command.body, SerializeType.ROCKETMQ)
