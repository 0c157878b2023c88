"""The storage engine: CommitLog, ConsumeQueue, Index, and how they survive."""

from cometmq.store.append import Appended, NewMessage
from cometmq.store.get import GetResult, GetStatus
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import MessageStore, QueryResult

__all__ = [
    "Appended",
    "FlushDiskType",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "NewMessage",
    "QueryResult",
    "StoreSettings",
]
