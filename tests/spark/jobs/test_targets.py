from pathlib import Path

import pytest

from cometmq.errors import StoreLocked
from cometmq.io.files import Disk
from cometmq.spark.jobs.targets import LOCK, held


def test_one_job_at_a_time_holds_a_target(tmp_path: Path) -> None:
    layer = Disk()
    for _ in range(2):
        with held(layer, tmp_path, "_job") as state:
            assert state == tmp_path / "_job" and layer.names(state) == [LOCK]
            with pytest.raises(StoreLocked, match="another job"), held(layer, tmp_path, "_job"):
                pass
