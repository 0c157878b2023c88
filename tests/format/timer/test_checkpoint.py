from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.timer.checkpoint import TimerCheckpoint


def test_the_checkpoint_of_a_real_broker_reads_as_it_is(golden: Mapping[str, Path]) -> None:
    data = layout.timer_checkpoint_path(golden["store-clean"]).read_bytes()
    checkpoint = TimerCheckpoint.unpack(data)
    assert checkpoint == (1795245197000, 1040, 20, 20, 0, 1795245197494, 46)
    assert checkpoint.pack() == data


def test_a_checkpoint_that_is_cut_is_refused() -> None:
    with pytest.raises(FormatError, match="needs 56 bytes, got 55"):
        TimerCheckpoint.unpack(bytes(55))
