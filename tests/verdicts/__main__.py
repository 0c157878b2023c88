"""Write the tables of ``docs/reference/verdicts.md``: ``python -m tests.verdicts``."""

import asyncio
import tempfile
from pathlib import Path

from tests.verdicts.page import PAGE, written

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        PAGE.write_text(asyncio.run(written(PAGE.read_text(), Path(root))))
