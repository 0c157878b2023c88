from pathlib import Path

import pytest
from tests.shop import QUEUE

from cometmq.client.requests.offset_store import LocalOffsets
from cometmq.errors import FormatError

OTHER = QUEUE._replace(queue_id=1)


async def test_local_offsets_are_found_again_in_rocketmqs_own_form(tmp_path: Path) -> None:
    path = tmp_path / "me" / "offsets.json"
    offsets = LocalOffsets(path)
    assert await offsets.read(QUEUE) is None
    await offsets.write({QUEUE: 7})
    await offsets.write({OTHER: 8})
    again = LocalOffsets(path)
    assert [await again.read(queue) for queue in (QUEUE, OTHER)] == [7, 8]
    assert '{"brokerName":"broker-a","queueId":0,"topic":"Orders"}:7' in "".join(path.read_text().split())


async def test_a_damaged_file_is_replaced_by_the_one_of_before(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    offsets = LocalOffsets(path)
    await offsets.write({QUEUE: 7})
    await offsets.write({QUEUE: 8})
    path.write_text("{")
    assert await LocalOffsets(path).read(QUEUE) == 7
    path.with_name("offsets.json.bak").unlink()
    with pytest.raises(FormatError, match=rf"file of offsets {path}: JSON at .*; repair it, or remove it"):
        LocalOffsets(path)


async def test_after_a_crash_while_the_file_is_replaced_the_one_of_before_counts(tmp_path: Path) -> None:
    """Without any the consumer would begin at the end, and miss what came meanwhile."""
    path = tmp_path / "offsets.json"
    offsets = LocalOffsets(path)
    await offsets.write({QUEUE: 7})
    path.rename(path.with_name("offsets.json.bak"))  # and then the process was killed
    assert await LocalOffsets(path).read(QUEUE) == 7
