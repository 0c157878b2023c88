"""Detect records at the end of the log that a power loss has torn, although their checksums are right.

A record's checksum covers only its body. If a disk sector of the bytes behind it, topic and properties, was
never written, it holds zeros, and the rest of the record is valid. So in the part of the log that the
checkpoint does not vouch for, a record counts as torn if its part of a sector there is all zeros. No producer
sends that: names and values are texts.

Source: RocketMQ issue 7437 shows the harm of accepting such a record.
"""

from typing import Any, Final

import numpy as np

from cometmq.format.checksum import Crc
from cometmq.format.property_crc import is_complete_without_crc
from cometmq.format.record import RecordHead, record_at
from cometmq.format.scan import StopReason, check
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.ops import Scan
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.commit_log import CommitLog

SECTOR_SIZE: Final = 512


def stored_without_crc(commit_log: CommitLog, end: int) -> int | None:
    """Return the offset of a record that is sound, but lacks the property CRC that the settings require.

    Only the beginnings of files and ``end``, the apparent end of the log, are examined: a Java broker takes
    such a record for the end, and discards it and everything behind it.
    """
    places = [*commit_log.chain.starts, end] if commit_log.crc is Crc.RECORD else []
    return next((offset for offset in places if _only_lacks_crc(commit_log.chain, offset)), None)


def cut_torn(buffer: Bytes, scan: Scan, vouched_time: int, buffer_position: int = 0) -> Scan:
    """Cut ``scan`` before its first torn record that was stored later than ``vouched_time``, ms.

    Args:
        buffer: uint8[n], the scanned bytes.
        buffer_position: of the buffer's first byte in the file, which shows where sectors begin.
    """
    before_buffer = buffer_position % SECTOR_SIZE  # bytes of the sector in which the buffer begins
    late = np.flatnonzero(scan.store_time > vouched_time)
    begin = scan.topic_position[late]
    end = scan.position[late] + scan.size[late]
    text_end = np.where(scan.properties_length[late] > 0, end, begin + scan.topic_length[late])
    sector = (before_buffer + end - 1) // SECTOR_SIZE * SECTOR_SIZE - before_buffer
    torn = scan.count
    while (sector >= begin).any():
        inside = np.flatnonzero((sector >= begin) & (sector < text_end))
        for number in inside[buffer[sector[inside]] == 0].tolist():
            if not buffer[sector[number] : min(sector[number] + SECTOR_SIZE, end[number])].any():
                torn = min(torn, int(late[number]))
        sector = sector - SECTOR_SIZE
    if torn == scan.count:
        return scan
    fields = scan._asdict().items()
    before: dict[str, Any] = {name: field[:torn] for name, field in fields if isinstance(field, np.ndarray)}
    return scan._replace(**before, stop_position=int(scan.position[torn]), stop_reason=StopReason.DAMAGED)


def _only_lacks_crc(chain: FileChain, offset: int) -> bool:
    start = chain.start_of(offset)
    if start is None:
        return False
    view = chain.file(start).view()
    head = check(view, offset - start, len(view), base_offset=start)
    return isinstance(head, RecordHead) and is_complete_without_crc(record_at(view, head).properties)
