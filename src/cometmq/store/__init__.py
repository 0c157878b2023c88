"""The storage engine: CommitLog, ConsumeQueue, Index, and how they survive.

A store needs no broker: ``MessageStore.open(directory)`` appends, reads and finds (``docs/guide/store.md``).
"""

from cometmq.extras import require

require("broker", "the store", "numpy")

# ruff: noqa: E402  what is imported needs numpy, and would say less where it is missing

from cometmq.message import Message, StoredMessage
from cometmq.store.append import Appended, NewMessage
from cometmq.store.messages import Receipt
from cometmq.store.pointers import Pointers
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
