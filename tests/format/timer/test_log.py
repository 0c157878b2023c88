from collections.abc import Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cometmq.format import layout
from cometmq.format.java.java_hash import java_hash
from cometmq.format.timer import log as timer_log
from cometmq.format.timer.log import Unit

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)


@given(st.builds(Unit, LONG, st.integers(0, 15), LONG, INT, LONG, INT, INT), st.integers(0, 20))
def test_a_unit_reads_as_it_was_written(unit: Unit, before: int) -> None:
    data = unit.pack()
    assert len(data) == timer_log.SIZE
    assert timer_log.unpack(bytes(before) + data + b"behind", before) == unit


def test_the_units_of_a_real_broker_chain_up_by_slot(golden: Mapping[str, Path]) -> None:
    data = (layout.timer_log_dir(golden["store-clean"]) / layout.offset_name(0)).read_bytes()
    units = [timer_log.unpack(data, 52 * number) for number in range(20)]
    assert units[0] == Unit(-1, 1, 1795245165000, 3000, 1244711, 355, 1868907576)
    assert units[2] == Unit(0, 1, 1795245165000, 3000, 1245422, 355, 1868907576)
    assert {unit.topic_hash for unit in units if unit} == {java_hash("GoldenA")}
    assert b"".join(unit.pack() for unit in units if unit) == data[: 20 * 52]
    assert timer_log.unpack(data, 20 * 52) is None


def test_what_is_no_unit_reads_as_none() -> None:
    data = Unit(-1, 1, 0, 0, 0, 0, 0).pack()
    assert timer_log.unpack(data[:-1]) is None
    assert timer_log.unpack(b"\0\0\0\x33" + data[4:]) is None
    assert timer_log.unpack(data[:12] + b"\0\0\0\x10" + data[16:]) is None
    assert timer_log.unpack(timer_log.blank(60).ljust(60, b"\0")) is None


def test_a_file_ends_in_a_blank() -> None:
    assert timer_log.blank(20).hex() == "00000014" + "0000000000000000" + "cbd43194"
    assert (timer_log.has_room(67), timer_log.has_room(68)) == (False, True)
    for file_size in (4096, 104_857_600):
        last = timer_log.last_position(file_size)
        assert timer_log.has_room(file_size - last) and not timer_log.has_room(file_size - last - 52)
