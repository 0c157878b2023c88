"""The operations compiled by Numba: importing this loads them all. They equal those of ``plain``."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from cometmq.kernels.acks import compiled as acks
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.arrow import gather
from cometmq.kernels.frames import compiled as frames
from cometmq.kernels.ops import Scan
from cometmq.kernels.pulls import compiled as pulls
from cometmq.kernels.queries import compiled as queries
from cometmq.kernels.records.crc import crc32
from cometmq.kernels.records.dispatch import dispatch
from cometmq.kernels.records.index import index_insert
from cometmq.kernels.records.keys import read_keys
from cometmq.kernels.records.scan import scan
from cometmq.kernels.records.selection import select
from cometmq.kernels.sends import compiled as sends
from cometmq.kernels.sends.grouping import group_entries
from cometmq.kernels.text import properties
from cometmq.message import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "acks",
    "arrow",
    "body",
    "crc32",
    "dispatch",
    "frames",
    "gather",
    "group_entries",
    "index_insert",
    "properties",
    "pulls",
    "queries",
    "read_keys",
    "scan",
    "select",
    "sends",
]

body: Final = "compiled"


def arrow(buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]) -> "pa.RecordBatch":
    """Gather records into Arrow columns: see ``ops.Ops.arrow``."""
    from cometmq.kernels.arrow import columns as columns_of  # noqa: PLC0415  pyarrow is large; only Spark has it

    return columns_of.gather(buffer, scan, rows, columns)
