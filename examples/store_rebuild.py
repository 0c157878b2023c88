"""Lose everything but the CommitLog, rebuild it, and check every byte.

::

    python examples/store_append.py && python examples/store_rebuild.py [DIRECTORY]
"""

import shutil
import sys
from pathlib import Path

from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.verify import verify

directory = Path(sys.argv[1] if len(sys.argv) > 1 else "example-store")
shutil.rmtree(directory / "consumequeue")
shutil.rmtree(directory / "index")

rebuilt = rebuild(directory)
print(f"{rebuilt.messages} messages: {rebuilt.queues} queues and {rebuilt.index_files} index files made")
print(f"the store is {verify(directory).state.value}")
