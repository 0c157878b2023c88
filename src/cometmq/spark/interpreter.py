"""Choose the Python that Spark starts: the present interpreter, unless the user has set another.

Spark runs a source that is written in Python in processes of its own. When Spark's Java starts,
``PYSPARK_DRIVER_PYTHON``, else ``PYSPARK_PYTHON``, names their Python; else it is the ``python3`` of ``PATH``
(Spark's ``PythonUtils.defaultPythonExec``). That is another Python, without this package, if a program is
started by the path of its interpreter (``venv/bin/python job.py``), as IDEs, cron and systemd do. Spark's
setting ``spark.pyspark.python`` applies in ``spark-submit`` alone, which sets ``PYSPARK_PYTHON`` to it.
"""

import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from pyspark import SparkContext

from cometmq.logs import get_logger

WORKERS: Final = "PYSPARK_PYTHON"
"""The variable for the Python of Spark's workers, and of the driver unless ``DRIVER`` is set."""
DRIVER: Final = "PYSPARK_DRIVER_PYTHON"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set in programs that ``spark-submit`` started: their Java runs already, with this Python."""
DEFAULT: Final = "python3"

log = get_logger(__name__)


def choose(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set ``PYSPARK_PYTHON`` to this interpreter, for the Java that Spark starts from now on.

    Nothing is set if either variable is, or if ``spark-submit`` started the program. If Java runs already and
    uses another Python, a warning is logged: nothing can be changed in it.
    """
    if any(environment.get(name) for name in (WORKERS, DRIVER, SUBMITTED)):
        return
    if SparkContext._gateway is None:  # noqa: SLF001  Spark offers no other way to ask
        environment[WORKERS] = sys.executable
        return
    found = shutil.which(DEFAULT, path=environment.get("PATH"))
    if found is None or Path(found).parent != Path(sys.executable).parent:
        log.warning(
            "this session was made before cometmq.spark was imported: it looks for the format rocketmq with "
            "%s, not with %s, and may not find it. Import cometmq.spark first, or set %s to that path",
            found or DEFAULT,
            sys.executable,
            WORKERS,
        )
