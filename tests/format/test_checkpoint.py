from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.checkpoint import SIZE, Checkpoint
from cometmq.format.layout import checkpoint_path

LONG = st.integers(-(2**63), 2**63 - 1)


@given(st.builds(Checkpoint, LONG, LONG, LONG, LONG, LONG))
def test_what_is_packed_is_unpacked(checkpoint: Checkpoint) -> None:
    data = checkpoint.pack()
    assert len(data) == SIZE
    assert Checkpoint.unpack(data) == checkpoint


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("store-clean", Checkpoint(1795245182319, 1795245182319, 1795245165872, 0, 0)),
        ("store-killed", Checkpoint(1795245237853, 1795245238814, 1795245238798, 0, 0)),
        ("store-killed-recovered", Checkpoint(1795245237853, 1795245238845, 1795245238798, 0, 1042876)),
    ],
)
def test_a_real_brokers_checkpoint_reads_and_writes_back(
    golden: Mapping[str, Path], name: str, expected: Checkpoint
) -> None:
    data = checkpoint_path(golden[name]).read_bytes()
    assert Checkpoint.unpack(data) == expected
    assert expected.pack() == data


def test_recovery_begins_before_the_older_of_log_and_queues() -> None:
    checkpoint = Checkpoint(10_000, 9_000, 5_000)
    assert checkpoint.recovery_time() == 6_000
    assert checkpoint.recovery_time(with_index=True) == 2_000


def test_recovery_begins_at_the_beginning_without_a_checkpoint() -> None:
    assert Checkpoint().recovery_time() == 0


def test_a_file_that_is_too_short_is_an_error() -> None:
    with pytest.raises(FormatError, match="needs 40 bytes, got 39"):
        Checkpoint.unpack(bytes(39))
