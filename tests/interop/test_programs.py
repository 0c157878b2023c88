"""What runs the Java programs tells them apart, and lets none that failed disturb the next."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.programs import Programs

pytestmark = pytest.mark.interop

NOBODY = f"{peers.HOST}:1"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path) as programs:
        yield programs


def processes(folder: Path) -> int:
    """Count the Java processes that were started."""
    return len(list(folder.glob("java-*")))


def test_what_programs_print_side_by_side_is_told_apart(programs: Programs, tmp_path: Path) -> None:
    alone = programs.run("Assignments")
    with ThreadPoolExecutor(3) as pool:
        side_by_side = list(pool.map(lambda _: programs.run("Assignments"), range(3)))
    assert alone and side_by_side == [alone] * 3
    assert processes(tmp_path) == 1


def test_other_system_properties_need_another_process(programs: Programs, tmp_path: Path) -> None:
    programs.run("Assignments")
    programs.run("Assignments", properties={"rocketmq.serialize.type": "JSON"})  # the default
    assert processes(tmp_path) == 1
    programs.run("Assignments", properties={"rocketmq.serialize.type": "ROCKETMQ"})
    assert processes(tmp_path) == 2


def test_a_program_that_fails_says_why_and_the_next_gets_a_new_process(
    programs: Programs, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=r"SendKeyed .*Exception[\s\S]*at SendKeyed\.main"):
        programs.run("SendKeyed", NOBODY, "Nowhere", "k", 1)
    assert programs.run("Assignments")
    assert processes(tmp_path) == 2


def test_a_program_that_hangs_is_killed_with_its_process(programs: Programs, tmp_path: Path) -> None:
    with peers.cometmq(tmp_path / "store") as broker:
        with pytest.raises(AssertionError, match=r"Answer .*did not end within 3 s"):
            programs.run("Answer", broker.namesrv, "NobodyAsks", 1, timeout_s=3)
        assert len(programs.run("SendKeyed", broker.namesrv, "Sent", "k", 2)) == 2
    assert processes(tmp_path) == 2
