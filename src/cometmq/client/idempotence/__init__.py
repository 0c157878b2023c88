"""Handle each message once, although it may be delivered more than once."""

from cometmq.client.idempotence.deduplicator import Deduplicator
from cometmq.client.idempotence.memory import MemoryClaims
from cometmq.client.idempotence.redis import RedisClaims
from cometmq.client.idempotence.sqlite import SqliteClaims
from cometmq.client.idempotence.store import ClaimStore

__all__ = ["ClaimStore", "Deduplicator", "MemoryClaims", "RedisClaims", "SqliteClaims"]
