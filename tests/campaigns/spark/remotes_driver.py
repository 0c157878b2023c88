"""One job on a store that lies on S3, run as a process of its own, to be killed.

    python -m tests.campaigns.spark.remotes_driver JOB FOLDER KEY

``JOB`` is export, delta, archive, verify or find; ``KEY`` is what find looks for. It prints what came of it,
as JSON.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from cometmq.spark import session
from cometmq.spark.jobs.export import rounds
from cometmq.spark.jobs.export.archive import archive
from cometmq.spark.jobs.export.export import export
from cometmq.spark.jobs.find.find import find
from cometmq.spark.jobs.verify import verify
from cometmq.store.offline.find import FindQuery

STORE: Final = "s3://lake/store"
TARGET: Final = "s3://lake/{}"
ROUND_BYTES: Final = 512 * 1024 * 1024
"""So that a run has some rounds, as one over terabytes has."""


def main(job: str, folder: Path, key: str) -> None:
    """Run a job and print what it returns."""
    rounds.UNIT_BYTES = ROUND_BYTES // rounds.UNITS_MIN  # type: ignore[misc]  # no user needs to
    spark = session("local[2]", work_dir=folder / "work")
    target = TARGET.format(job)
    jobs: dict[str, Callable[[], Any]] = {
        "export": lambda: export(spark, STORE, target),
        "delta": lambda: export(spark, STORE, target, as_delta=True),
        "archive": lambda: archive(spark, STORE, target),
        "verify": lambda: verify(spark, [STORE]),
        "find": lambda: [
            [hit.record.physical_offset for hit in hits.found]
            for use_index in (True, False)
            for hits in find(spark, [STORE], FindQuery(key=key), use_index=use_index)
        ],
    }
    print(json.dumps(msgspec.to_builtins(jobs[job]())))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
