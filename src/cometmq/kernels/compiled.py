"""The operations compiled by Numba: importing this loads them all. They equal those of ``plain``."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from cometmq.kernels.acks import compiled as acks
from cometmq.kernels.arrow import gather
from cometmq.kernels.ops import Bytes, Longs, Scan
from cometmq.kernels.pulls import compiled as pulls
from cometmq.kernels.queries import compiled as queries
from cometmq.kernels.records import properties
from cometmq.kernels.records.crc import crc32
from cometmq.kernels.records.dispatch import dispatch
from cometmq.kernels.records.grouping import group_entries
from cometmq.kernels.records.index import index_insert
from cometmq.kernels.records.keys import read_keys
from cometmq.kernels.records.scan import scan
from cometmq.kernels.records.selection import select
from cometmq.kernels.records.text import java_hash_many
from cometmq.kernels.sends import compiled as sends
from cometmq.kernels.signed import compiled as signed
from cometmq.message import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "acks",
    "arrow",
    "crc32",
    "dispatch",
    "gather",
    "group_entries",
    "index_insert",
    "java_hash_many",
    "properties",
    "pulls",
    "queries",
    "read_keys",
    "scan",
    "select",
    "sends",
    "signed",
]


def arrow(buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]) -> "pa.RecordBatch":
    """Gather records into Arrow columns: see ``ops.Ops.arrow``."""
    from cometmq.kernels.arrow import columns as columns_of  # noqa: PLC0415  pyarrow is large; only Spark has it

    return columns_of.gather(buffer, scan, rows, columns)
