from collections.abc import Mapping
from pathlib import Path

from cometmq.format import layout
from cometmq.format.timer import wheel as timer_wheel
from cometmq.format.timer.wheel import Slot

TIME = 1795252366


def test_the_slots_of_a_real_broker_read_as_they_are(golden: Mapping[str, Path]) -> None:
    wheel = layout.timer_wheel_path(golden["store-clean"]).read_bytes()
    slots = timer_wheel.slots(wheel)
    assert slots[:2] == [Slot(1795245168, 0, 104, 2), Slot(1795245169, 208, 624, 5)]
    assert [slot.time for slot in slots[3:]] == list(range(TIME, TIME + 20, 2))
    written = bytearray(timer_wheel.SIZE)
    for slot in slots:
        position = timer_wheel.position_of(slot.time)
        written[position : position + timer_wheel.SLOT_SIZE] = slot.pack()
    assert written == wheel


def test_what_lies_in_another_slots_place_is_none() -> None:
    wheel = bytearray(timer_wheel.SIZE)
    position = timer_wheel.position_of(TIME + 1)
    wheel[position : position + 32] = Slot(TIME, 0, 0, 1).pack()
    assert len(wheel) == timer_wheel.SIZE and timer_wheel.slots(wheel) == []
    assert timer_wheel.position_of(TIME) == timer_wheel.position_of(TIME + timer_wheel.SLOTS)
