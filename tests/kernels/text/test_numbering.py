import numpy as np
import pytest

from cometmq.kernels.arrays import Bytes, Ints


def number(texts: list[bytes], seconds: list[int]) -> tuple[list[int], list[int]]:
    from cometmq.kernels.text.numbering import number_texts  # noqa: PLC0415  compiled when ``compiled`` is loaded

    data: Bytes = np.frombuffer(b"".join(texts), np.uint8)
    lengths = np.array([len(text) for text in texts], np.int32)
    positions = np.cumsum(lengths, dtype=np.int64) - lengths
    numbers: Ints = np.empty(len(texts), np.int32)
    firsts = number_texts(data, positions, lengths, np.array(seconds, np.int32), numbers)
    return numbers.tolist(), firsts.tolist()


@pytest.mark.usefixtures("compiled")
def test_equal_pairs_have_one_number_by_first_appearance() -> None:
    assert number([b"b", b"a", b"b", b"b", b""], [0, 0, 1, 0, 0]) == ([0, 1, 2, 0, 3], [0, 1, 2, 4])


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 65, 5000])
def test_keeps_however_many_there_are_apart(count: int) -> None:
    texts = [f"topic-{i // 8}".encode() for i in range(count)]
    seconds = [i % 8 for i in range(count)]
    assert number(texts * 2, seconds * 2) == ([*range(count)] * 2, [*range(count)])


@pytest.mark.usefixtures("compiled")
def test_keeps_texts_of_one_hash_apart() -> None:
    assert number([b"Aa", b"BB", b"AaBB", b"BBAa"] * 2, [7] * 8) == ([0, 1, 2, 3] * 2, [0, 1, 2, 3])
