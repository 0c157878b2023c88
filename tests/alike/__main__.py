"""Whether two checkouts answer, store and count alike: both play the same frames, valid and mutated.

    python -m tests.alike CHECKOUT [--frames 200000] [--seed 1] [--plain] [--signed]

``CHECKOUT`` is another work tree with an environment in ``.venv``; what it does is compared with this one.
The frames of some connections (sends of all kinds, pulls, acknowledgements, queries, others; usual, rare,
illegal and mutated) are cut into reads at random places. Answers are compared for each connection, by their
numbers; what is stored byte by byte. Which way a request went, as a row or as a command, may differ.

A query by key waits for the disk, or not, as the system has it: how far the index had got is not compared,
nor whether an answer came before its connection was closed.
"""

import argparse
import json
import pickle
import random
import struct
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cometmq.errors import ProtocolError
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.bodies import ConsumerData, Heartbeat, tag_subscription
from cometmq.wire.bodies import encode as encode_body
from cometmq.wire.codes import RequestCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode

HERE: Final = Path(__file__).parents[2]
CONNECTIONS: Final = 12
TOPICS: Final = (("alike-a", 4), ("alike-b", 2), ("alike-c", 1), ("alike-d", 4))
GROUP: Final = "alike-group"
ANN: Final = Credentials("ann", "ann's secret")
BOB: Final = Credentials("bob", "bob's secret")
NOW_MS: Final = 1_700_000_000_000
"""The time of the player's clock."""
ALLOWED: Final = [
    ([f"Topic:{topic}"], ["Pub", "Sub", "Get", "List"]) for topic in ("alike-a", "alike-b", "alike-c")
] + [([f"Group:{GROUP}"], ["Sub", "Get"])]
PROGRESS: Final = {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
LATE: Final = b"indexLastUpdatePhyoffset"
DIFFERENCES_MAX: Final = 20
WAYS: Final = {"rare_sends", "rare_pulls", "rare_queries"} | {
    f"{kind}_{way}" for kind in ("send", "pull", "query", "ack") for way in ("rows", "commands")
}
"""The counts of the ways that requests went."""


class Frames:
    """Draws frames as clients write them, or nearly so."""

    def __init__(self, draw: random.Random, *, are_signed: bool, has_acks: bool) -> None:
        self._draw = draw
        self._are_signed = are_signed
        self._opaque = 100
        self._kinds: list[Callable[[], bytes]] = [self.send, self.send, self.send, self.rare_send]
        self._kinds += [self.batch, self.pull, self.pull, self.by_id, self.by_key, self.other]
        if has_acks:
            self._kinds += [self.ack, self.ack]
        self._runs = 0
        self._kind: Callable[[], bytes] = self.send

    def one(self) -> bytes:
        """Draw a frame; neighbours are often of one kind."""
        if self._runs == 0:
            self._kind, self._runs = self._draw.choice(self._kinds), self._draw.choice((1, 1, 2, 5, 20))
        self._runs -= 1
        frame = self._kind()
        return self._mutated(frame) if self._draw.random() < 0.04 else frame

    def _topic(self) -> tuple[str, int]:
        draw = self._draw
        name, count = draw.choice(TOPICS) if draw.random() < 0.95 else ("alike-unknown", 4)
        return name, draw.randrange(count) if draw.random() < 0.97 else draw.choice((-1, 7, 1000))

    def send(self, **changes: Any) -> bytes:
        """Draw a usual send."""
        draw = self._draw
        topic, queue_id = self._topic()
        tag = f"TAGS\x01tag{draw.randrange(3)}\x02" if draw.random() < 0.5 else ""
        keys = f"KEYS\x01key{draw.randrange(50)} other\x02" if draw.random() < 0.5 else ""
        fields = {
            "a": "alike-producer",
            "b": topic,
            "c": "TBW102",
            "d": "8",
            "e": str(queue_id),
            "f": "0",
            "g": str(NOW_MS + draw.randrange(1000)),
            "h": str(draw.randrange(3)),
            "i": f"{keys}{tag}UNIQ_KEY\x01AC11000254A0{draw.randrange(1 << 24):08X}\x02WAIT\x01true\x02",
            "j": "0",
            "k": "false",
            "m": "false",
            "n": "alike",
        }
        code = changes.pop("code", 310)
        body = changes.pop("body", None) or draw.randbytes(draw.choice((1, 20, 128, 128, 1000)))
        flag = 2 if draw.random() < 0.1 else 0
        return self._frame(code, fields | changes, body, flag)

    def rare_send(self) -> bytes:
        """Draw a send that asks for more, or is written in another way."""
        draw = self._draw
        end = "UNIQ_KEY\x01AC1100\x02"
        more: dict[str, Any] = draw.choice(
            (
                {"i": f"DELAY\x013\x02{end}"},
                {"i": f"WAIT\x01false\x02{end}"},
                {"i": "KEYS\x01k"},
                {"i": f"KEYS\x01é\u4e2d\x02{end}"},
                {"i": f'a\x01"\\\n\x02{end}'},
                {"i": f"CLUSTER\x01x\x02{end}"},
                {"i": "UNIQ_KEY\x01a-b\x02"},
                {"i": f"KEYS\x01\ud83d\x02{end}"},
                {"i": ""},
                {"f": "4"},
                {"f": "8"},
                {"g": "9" * 19},
                {"e": "01"},
                {"e": "x"},
                {"j": "-1"},
                {"k": "no"},
                {"l": "16"},
                {"zzz": "1"},
                {"code": 10},
                {"b": "%RETRY%alike-group"},
                {"b": "bad topic!"},
                {"body": b"x" * 3000},
            )
        )
        if more.get("code") == 10:
            return self._frame(10, self._long_names(), draw.randbytes(50), 0)
        return self.send(**more)

    def _long_names(self) -> dict[str, str]:
        topic, queue_id = self._topic()
        return {
            "producerGroup": "alike-producer",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "8",
            "queueId": str(queue_id),
            "sysFlag": "0",
            "bornTimestamp": str(NOW_MS),
            "flag": "0",
            "properties": "UNIQ_KEY\x01AC1100\x02WAIT\x01true\x02",
            "reconsumeTimes": "0",
            "unitMode": "false",
            "batch": "false",
        }

    def batch(self) -> bytes:
        """Draw a batch."""
        draw = self._draw
        parts = []
        for _ in range(draw.choice((1, 2, 5))):
            body = draw.randbytes(draw.randrange(1, 60))
            stored = draw.choice(
                (b"", b"TAGS\x01tag1\x02", b"KEYS\x01key1\x02TAGS\x01tag2", b"DELAY\x011\x02")
            )
            size = 4 + 4 + 4 + 4 + 4 + len(body) + 2 + len(stored)
            parts.append(struct.pack(">iiiii", size, 0, 0, 5, len(body)) + body)
            parts.append(struct.pack(">h", len(stored)) + stored)
        data = b"".join(parts)
        if draw.random() < 0.1:
            data = data[:-1]
        return self.send(code=320, body=data, m="true")

    def pull(self) -> bytes:
        """Draw a pull; some wait until a message comes."""
        draw = self._draw
        topic, queue_id = self._topic()
        flag = draw.choice((0, 1, 2, 3, 4, 5, 6, 7, 6, 6))
        fields = {
            "consumerGroup": GROUP if draw.random() < 0.95 else "alike-stranger",
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(draw.choice((0, 0, 1, 5, 20, 100, 1000, 10_000, 10**6))),
            "maxMsgNums": str(draw.choice((0, 1, 10, 32, 32, 32, 5000))),
            "sysFlag": str(flag),
            "commitOffset": str(draw.randrange(50)),
            "suspendTimeoutMillis": "15000",
            "subscription": draw.choice(("*", "tag1", "tag1 || tag2", "tag7")),
            "subVersion": str(draw.choice((0, 1, 1, 2, NOW_MS))),
            "expressionType": draw.choice(("TAG", "TAG", "TAG", "SQL92")),
        }
        if draw.random() < 0.3:
            del fields["expressionType"]
        if draw.random() < 0.3:
            fields["maxMsgBytes"] = str(draw.choice((-1, 0, 100, 5000, 10**6, 2**31 - 1)))
        code = 361 if draw.random() < 0.2 else 11
        return self._frame(code, fields, b"", 0)

    def ack(self) -> bytes:
        """Draw an acknowledgement; neighbours are often of one check point."""
        draw = self._draw
        topic, queue_id = TOPICS[0][0], draw.randrange(2)
        offset = draw.randrange(200)
        begin = offset // 32 * 32
        handle = f"{begin} {NOW_MS - draw.randrange(2)} 60000 {draw.randrange(2)} 0 alike {queue_id} {offset}"
        if draw.random() < 0.05:
            handle = draw.choice((handle + "x", handle.replace(" ", "  ", 1), "", "1 2 3", handle + "9" * 20))
        fields = {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": str(queue_id),
            "offset": str(offset if draw.random() < 0.97 else draw.choice((-1, 10**9))),
            "extraInfo": handle,
        }
        return self._frame(200_051, fields, b"", 0)

    def by_id(self) -> bytes:
        """Draw a query by offset."""
        offset = self._draw.choice((0, 0, 1, 77, 10**6, 10**12, -1))
        return self._frame(33, {"offset": str(offset)}, b"", 0)

    def by_key(self) -> bytes:
        """Draw a query by key."""
        draw = self._draw
        fields = {
            "topic": self._topic()[0],
            "key": draw.choice((f"key{draw.randrange(60)}", "AC1100", "é")),
            "maxNum": str(draw.choice((0, 1, 32, 100))),
            "beginTimestamp": str(draw.choice((0, NOW_MS - 1, NOW_MS + 10_000))),
            "endTimestamp": str(draw.choice((NOW_MS + 1, 2**63 - 1, 0))),
        }
        if draw.random() < 0.4:
            fields["_UNIQUE_KEY_QUERY"] = draw.choice(("true", "false", "no"))
        return self._frame(12, fields, b"", 0)

    def other(self) -> bytes:
        """Draw a request that is a command."""
        draw = self._draw
        topic, queue_id = self._topic()
        where = {"topic": topic, "queueId": str(queue_id)}
        code, fields = draw.choice(
            (
                (30, where),
                (31, where),
                (14, where | {"consumerGroup": GROUP}),
                (15, where | {"consumerGroup": GROUP, "commitOffset": "3"}),
                (200_050, where),
                (999, {}),
                (202, {"topic": topic}),
            )
        )
        return self._frame(code, fields, b"", 0)

    def _frame(self, code: int, fields: dict[str, str], body: bytes, flag: int) -> bytes:
        draw = self._draw
        self._opaque += 1
        if self._are_signed and draw.random() < 0.95:
            user = ANN if draw.random() < 0.97 else BOB
            with suppress(UnicodeError):
                fields = signed_fields(fields, body, 479, user)
            if draw.random() < 0.03:
                fields["Signature"] = fields["Signature"][::-1]
            if draw.random() < 0.02:
                body += b"!" if body else b""
        if draw.random() < 0.12 and code < 2**15:
            return self._binary(code, fields, body, flag)
        header: dict[str, Any] = {
            "code": code,
            "extFields": fields,
            "flag": flag,
            "language": "JAVA",
            "opaque": self._opaque if draw.random() < 0.99 else -self._opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        }
        odd = draw.random()
        if odd < 0.02:
            header = dict(draw.sample(list(header.items()), len(header)))
        elif odd < 0.03:
            header["remark"] = draw.choice((None, "", "x"))
        elif odd < 0.035:
            header["flag"] = draw.choice((1, 2, 3, 4, "0"))
        elif odd < 0.04:
            header["extFields"] = dict(draw.sample(list(fields.items()), len(fields)))
        separators = (", ", ": ") if draw.random() < 0.02 else (",", ":")
        text = json.dumps(header, separators=separators, ensure_ascii=draw.random() < 0.5)
        data = text.encode("utf-8", "surrogatepass")
        return struct.pack(">iI", 4 + len(data) + len(body), len(data)) + data + body

    def _binary(self, code: int, fields: dict[str, str], body: bytes, flag: int) -> bytes:
        parts = b""
        for name, value in fields.items():
            text = value.encode("utf-8", "surrogatepass")
            parts += struct.pack(f">h{len(name)}si", len(name), name.encode(), len(text)) + text
        data = struct.pack(">hBhiiii", code, 0, 479, self._opaque, flag, 0, len(parts)) + parts
        return struct.pack(">iI", 4 + len(data) + len(body), 1 << 24 | len(data)) + data + body

    def _mutated(self, frame: bytes) -> bytes:
        """Change a frame; its lengths stay true, nearly always, for else nothing behind it is read."""
        draw = self._draw
        if draw.random() < 0.03:  # one that is too short; a longer one takes what follows it for its body
            at = draw.randrange(8)
            changed = frame[:at] + draw.randbytes(1) + frame[at + 1 :]
            return frame if is_sound(changed) else changed
        (word,) = struct.unpack_from(">I", frame, 4)
        size = word & 0xFFFFFF
        header, body = bytearray(frame[8 : 8 + size]), frame[8 + size :]
        for _ in range(draw.choice((1, 1, 2))):
            at = draw.randrange(len(header))
            match draw.randrange(4):
                case 0:
                    header[at] = draw.choice(b'\\"{}[]:, 0123456789-.eE\x00\x1f\x7f\x80\xff')
                case 1:
                    del header[at]
                case 2:
                    header[at:at] = draw.choice((b"\\u0041", b"\\", b'"', b" ", b"0", b"\xc3\xa9", b"null"))
                case _:
                    begin = max(0, at - 30)
                    header[at:at] = header[begin:at]
            if not header:
                break
        prefix = struct.pack(">iI", 4 + len(header) + len(body), word & ~0xFFFFFF | len(header))
        return prefix + bytes(header) + body


class Stream:
    """What one connection is about to send."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._begins: list[int] = []

    def add(self, frame: bytes) -> None:
        """Add a frame."""
        self._begins.append(len(self.data))
        self.data += frame

    def cut(self, size: int) -> tuple[bytes, int]:
        """Remove the first bytes; return them, and where in them the first frame begins."""
        data, begins = bytes(self.data[:size]), self._begins
        del self.data[:size]
        self._begins = [begin - size for begin in begins if begin >= size]
        return data, begins[0] if begins and begins[0] < size else size


def is_sound(frame: bytes) -> bool:
    """Return whether a frame can be decoded, so that its connection stays."""
    try:
        FrameReader().receive_data(frame)
    except ProtocolError:
        return False
    return True


def script_of(
    count: int, seed: int, *, are_signed: bool, is_together: bool, has_acks: bool
) -> dict[str, Any]:
    """Return what both play."""
    draw = random.Random(seed)
    frames = Frames(draw, are_signed=are_signed, has_acks=has_acks)
    streams = [Stream() for _ in range(CONNECTIONS)]
    turns: list[list[tuple[int, bytes, int]]] = []
    made = 0
    while made < count:
        for _ in range(draw.choice((1, 4, 20))):
            slot, frame = draw.randrange(CONNECTIONS), frames.one()
            made += 1
            stream = streams[slot]
            if is_sound(frame):
                stream.add(frame)
                continue
            # it closes the connection; which of those before it in one read are answered is nobody's promise
            if stream.data:
                turns.append([(slot, *stream.cut(len(stream.data)))])
            turns.append([(slot, frame, 0)])
        turn = []
        for slot in draw.sample(range(CONNECTIONS), draw.choice((1, 3, CONNECTIONS)) if is_together else 1):
            stream = streams[slot]
            size = len(stream.data) if draw.random() < 0.7 else draw.randrange(len(stream.data) + 1)
            if size:
                turn.append((slot, *stream.cut(size)))
        if turn:
            turns.append(turn)
    consumer = ConsumerData(GROUP, subscriptions=[tag_subscription(topic, "*", 1) for topic, _ in TOPICS])
    beat = Command(RequestCode.HEART_BEAT, 5, body=encode_body(Heartbeat("alike", consumers=[consumer])))
    entries = [(pattern, actions) for (pattern,), actions in ALLOWED]
    users = [("ann", ANN.secret_key, entries), ("bob", BOB.secret_key, [])] if are_signed else []
    return {
        "users": users,
        "topics": TOPICS,
        "begin": [(CONNECTIONS, encode(beat), 0)],
        "turns": turns,
    }


def played(checkout: Path, script: Path, *, is_plain: bool) -> dict[str, Any]:
    """Play a script in a checkout; return what came of it."""
    found = script.with_suffix(f".{'this' if checkout == HERE else 'other'}")
    player = Path(__file__).parent / "player.py"
    # ids of messages without one have the process's
    code = f"import os, runpy; os.getpid = lambda: 4242; runpy.run_path({str(player)!r}, run_name='__main__')"
    command: list[Any] = [
        checkout / ".venv" / "bin" / "python",
        "-c",
        code,
        script,
        found,
        *["--plain"][:is_plain],
    ]
    subprocess.run(command, check=True, cwd=checkout)
    result: dict[str, Any] = pickle.loads(found.read_bytes())
    return result


def answers_of(streams: dict[int, list[bytes]]) -> dict[int, dict[int, list[bytes]]]:
    """Return the frames of all answers by connection and number."""
    found: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for slot, chunks in streams.items():
        for one in FrameReader().receive_data(b"".join(chunks)):
            for name in PROGRESS & one.ext_fields.keys():
                one.ext_fields[name] = ""
            found[slot][one.opaque].append(encode(one))
    return found


def differences(other: dict[str, Any], this: dict[str, Any]) -> list[str]:
    """Return what differs, as texts."""
    found = []
    theirs, ours = answers_of(other["streams"]), answers_of(this["streams"])
    for slot in sorted(theirs.keys() | ours.keys()):
        for opaque in sorted(theirs[slot].keys() | ours[slot].keys()):
            one, another = sorted(theirs[slot][opaque]), sorted(ours[slot][opaque])
            are_late = not (one and another) and all(LATE in each for each in one + another)
            if one != another and not are_late:
                found += [f"connection {slot}, request {opaque}: {one!r:.200} {another!r:.200}"]
    pairs = [(other, this, other.keys() - {"streams", "counts"})]
    names = (other["counts"].keys() | this["counts"].keys()) - WAYS
    pairs += [(other["counts"], this["counts"], names)]
    for before, now, names in pairs:
        found += [
            f"{name}: {before.get(name)} {now.get(name)}"
            for name in sorted(names)
            if before.get(name) != now.get(name)
        ]
    return found


def main() -> int:
    """Play, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.alike", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="use the plain operations")
    parser.add_argument("--together", action="store_true", help="several connections make a turn")
    parser.add_argument(
        "--acks", action="store_true", help="acknowledgements, too: joined otherwise, they are stored so"
    )
    parser.add_argument("--signed", action="store_true", help="authentication is on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cometmq-alike-") as folder:
        path = Path(folder) / "script"
        script = script_of(
            options.frames,
            options.seed,
            are_signed=options.signed,
            is_together=options.together,
            has_acks=options.acks,
        )
        path.write_bytes(pickle.dumps(script))
        other = played(options.checkout.resolve(), path, is_plain=options.plain)
        this = played(HERE, path, is_plain=options.plain)
    answered = Counter(
        one.code
        for chunks in this["streams"].values()
        for one in FrameReader().receive_data(b"".join(chunks))
    )
    print(f"{options.frames} frames in {len(script['turns'])} turns, answered by code: {dict(answered)}")
    print(f"written {this['written']} bytes, closed {this['closed']} connections, counts {this['counts']}")
    same_order = other["streams"] == this["streams"]
    found = differences(other, this)
    for line in found[:DIFFERENCES_MAX]:
        print(line[:500])
    print(f"{len(found)} differences; answers in the same order: {same_order}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
