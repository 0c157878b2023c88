import itertools

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("compiled")


def gathered(data: bytes, places: list[tuple[int, int]], *, is_text: bool) -> list[bytes]:
    from cometmq.kernels.arrow.gather import copy_pieces, set_offsets  # noqa: PLC0415  imports numba

    buffer = np.frombuffer(data, np.uint8)
    begins = np.array([begin for begin, _ in places], np.int64)
    ends = np.array([end for _, end in places], np.int64)
    offsets = np.empty(len(places) + 1, np.int32)
    size = set_offsets(buffer, begins, ends, is_text, offsets)
    made = np.empty(size, np.uint8)
    copy_pieces(buffer, begins, ends, is_text, offsets, made)
    return [made[begin:end].tobytes() for begin, end in itertools.pairwise(offsets)]


def test_pieces_are_copied_in_the_order_given() -> None:
    assert gathered(b"abcdef", [(4, 6), (0, 0), (1, 4), (1, 2)], is_text=True) == [b"ef", b"", b"bcd", b"b"]


def test_long_pieces_are_copied_whole() -> None:
    data = bytes(range(256)) * 9
    assert gathered(data, [(7, 2000), (0, 2304)], is_text=False) == [data[7:2000], data]


def test_bytes_stay_as_they_are() -> None:
    assert gathered(b"\xff\xf0\x9f\x99", [(0, 1), (1, 4)], is_text=False) == [b"\xff", b"\xf0\x9f\x99"]


def test_texts_are_made_utf_8() -> None:
    data = b"\xf0\x9f\x99" + "ж🙂".encode() + b"\xe4a"
    assert gathered(data, [(0, 3), (3, 9), (9, 11)], is_text=True) == [
        "\ufffd".encode(),
        "ж🙂".encode(),
        "\ufffda".encode(),
    ]
