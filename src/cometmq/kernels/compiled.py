"""The operations compiled by Numba: importing this loads them all. They equal those of ``plain``."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from cometmq.kernels import compiled_pulls as pulls
from cometmq.kernels import gather, properties
from cometmq.kernels import query as queries
from cometmq.kernels import send as sends
from cometmq.kernels.crc import crc32
from cometmq.kernels.dispatch import dispatch
from cometmq.kernels.grouping import group_entries
from cometmq.kernels.index import index_find, index_insert
from cometmq.kernels.keys import read_keys
from cometmq.kernels.ops import Bytes, Longs, Scan
from cometmq.kernels.scan import scan
from cometmq.kernels.selection import select
from cometmq.kernels.text import java_hash_many
from cometmq.message import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "arrow",
    "crc32",
    "dispatch",
    "gather",
    "group_entries",
    "index_find",
    "index_insert",
    "java_hash_many",
    "properties",
    "pulls",
    "queries",
    "read_keys",
    "scan",
    "select",
    "sends",
]


def arrow(buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]) -> "pa.RecordBatch":
    """Gather records into Arrow columns: see ``ops.Ops.arrow``."""
    from cometmq.kernels import arrow as columns_of  # noqa: PLC0415  pyarrow is large, and only Spark has it

    return columns_of.gather(buffer, scan, rows, columns)
