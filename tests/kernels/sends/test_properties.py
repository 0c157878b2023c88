import pytest
from tests.kernels.sending import Reader, binary_frame, json_frame

from cometmq.format.java.java_hash import tags_code
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import TAGS_CODE

KEY = "UNIQ_KEY\x01abc\x02"


@pytest.mark.parametrize("tags", ["TagA", "标签 🙂", "a\x01b"])
@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_tags_have_their_hash(ops: Ops, frame: type, tags: str) -> None:
    reader = Reader(ops)
    if reader.takes(frame({"i": f"TAGS\x01other\x02TAGS\x01{tags}\x02TAGS\x01\x02{KEY}"})):
        assert reader.entries[0, TAGS_CODE] == tags_code(tags)
    else:
        assert "🙂" in tags and frame is json_frame  # a surrogate pair in escapes


def test_without_tags_the_code_is_0(ops: Ops) -> None:
    reader = Reader(ops)
    assert reader.takes(json_frame({"i": KEY})) and reader.entries[0, TAGS_CODE] == 0


@pytest.mark.parametrize(
    "properties",
    [
        "",
        "UNIQ_KEY\x01abc",
        "UNIQ_KEY\x01\x02",
        "KEYS\x01abc\x02",
        "UNIQ_KEY\x01a-c\x02",
        "UNIQ_KEY\x01ключ\x02",
        *(
            f"{name}\x01x\x02{KEY}"
            for name in (
                "DELAY",
                "TRAN_MSG",
                "TRACE_ON",
                "CLUSTER",
                "POP_CK",
                "MSG_REGION",
                "TIMER_DELAY_SEC",
                "TIMER_DELAY_MS",
                "TIMER_DELIVER_MS",
            )
        ),
        *(f"WAIT\x01{value}\x02{KEY}" for value in ("false", "FALSE", "True", "x", "t", "trues", "no")),
        *(f"DELAY\x01{value}\x02{KEY}" for value in ("0" * 30 + "1", "4Pinpoint", " 3", "1.0", "\u0663")),
        f"{KEY}{'x' * 32_767}\x01x\x02",
    ],
)
def test_what_must_be_changed_or_refused_is_left(ops: Ops, properties: str) -> None:
    assert not Reader(ops).takes(json_frame({"i": properties}))
    assert not Reader(ops).takes(binary_frame({"i": properties}))


@pytest.mark.parametrize(
    "piece", ["DELAY\x01\x02", "DELAY\x02", "XDELAY\x01x\x02", "WAIT\x01true\x02", "TIMER\x01x\x02", "\x02"]
)
def test_what_only_looks_so_is_taken(ops: Ops, piece: str) -> None:
    assert Reader(ops).takes(json_frame({"i": piece + KEY}))


def test_a_binary_text_that_is_no_utf8_is_left(ops: Ops) -> None:
    data = binary_frame({"i": f"x\x01MARK\x02{KEY}"})
    assert Reader(ops).takes(data)
    assert not Reader(ops).takes(data.replace(b"MARK", b"MA\xffK"))
