"""The storage engine: CommitLog, ConsumeQueues and Index, their recovery and their upkeep.

A store needs no broker: see ``MessageStore.open`` and ``docs/guide/store.md``.

Page: ``docs/internals/store.md``.
"""

from cometmq.extras import require

require("broker", "the store", "numpy")

# ruff: noqa: E402  the imports need numpy; ``require`` has the clearer error where it is missing

from cometmq.message import Message, StoredMessage
from cometmq.store.append import Appended, NewMessage
from cometmq.store.log.commit_log import Pointers
from cometmq.store.messages import Receipt
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.read.query import QueryResult
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import MessageStore

__all__ = [
    "Appended",
    "FlushDiskType",
    "GetResult",
    "GetStatus",
    "Message",
    "MessageStore",
    "NewMessage",
    "Pointers",
    "QueryResult",
    "Receipt",
    "StoreSettings",
    "StoredMessage",
]
