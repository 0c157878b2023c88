"""Steps of readings, and how they are carried out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.io.open_files import OpenFiles
from cometmq.store.reading import GAP_MAX, FileStep, Reading, ReadStep, Run, Stretch, run
from cometmq.testing.memory_disk import MemoryDisk

PATH = Path("/file")
DATA = bytes(number * 31 % 251 for number in range(3 * GAP_MAX))


@pytest.fixture
def files(disk: MemoryDisk) -> OpenFiles:
    disk.put(PATH, DATA)
    return OpenFiles(disk, writable=False)


def two_steps(files: OpenFiles) -> Reading[str]:
    (first,) = yield ReadStep(files, PATH, [(0, 1)])
    second = yield FileStep(files, PATH, lambda file: file.read(first[0], 1))
    return f"{first[0]} {second[0]}"


def test_who_may_wait_gets_the_answer_at_once(files: OpenFiles, disk: MemoryDisk) -> None:
    for cold in (False, True):
        disk.cold = cold
        assert run(two_steps(files)) == "0 0"


def test_a_reading_goes_on_until_a_step_must_be_fetched(files: OpenFiles, disk: MemoryDisk) -> None:
    for cold in (False, True):
        disk.cold = cold
        reading = Run(two_steps(files))
        assert not reading.go_on()
        assert isinstance(reading.step, ReadStep) is cold
        if cold:
            assert not reading.go_on(reading.step.fetch())
        assert isinstance(reading.step, FileStep)
        assert reading.go_on(reading.step.fetch())
        assert reading.answer == "0 0"


def test_a_reading_that_needs_no_file_is_over_at_once() -> None:
    def nothing() -> Reading[int]:
        return 7
        yield

    reading = Run(nothing())
    assert reading.go_on() and reading.answer == 7


@given(st.lists(st.tuples(st.integers(0, 2 * GAP_MAX), st.integers(0, GAP_MAX)), max_size=20))
def test_stretches_come_in_their_order_however_near_they_are(stretches: list[Stretch]) -> None:
    disk = MemoryDisk()
    disk.put(PATH, DATA)
    step = ReadStep(OpenFiles(disk, writable=False), PATH, stretches)
    expected = [DATA[begin : begin + size] for begin, size in stretches]
    for found in (step.ready(), step.fetch()):
        assert found is not None
        assert [bytes(data) for data in found] == expected
    disk.cold = True
    assert step.ready() is None or not stretches


def test_a_file_that_is_gone_gives_nothing(files: OpenFiles, disk: MemoryDisk) -> None:
    disk.remove(PATH)
    assert ReadStep(files, PATH, [(0, 1)]).fetch() is None
    assert FileStep(files, PATH, lambda file: file.size).fetch() is None


def test_a_reading_that_is_closed_ends_where_it_waits(files: OpenFiles, disk: MemoryDisk) -> None:
    ended: list[bool] = []

    def marked() -> Reading[str]:
        try:
            return (yield from two_steps(files))
        finally:
            ended.append(True)

    disk.cold = True
    reading = Run(marked())
    assert not reading.go_on() and ended == []
    reading.close()
    assert ended == [True]
