"""Writes a large CommitLog of all kinds of records fast, damages it, and tears its end."""

import random
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cometmq.format import layout, properties
from cometmq.format.compression import compress
from cometmq.format.host import pack_host
from cometmq.format.record import (
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    START_SIZE,
    Record,
    encode,
    encode_blank,
)
from cometmq.format.sys_flag import CompressionType, compressed_with

FILES: Final = 4
RECORDS: Final = 1_000
"""Of a block; a file is full of the same block, with offsets of their own."""
BODY_SIZES: Final = (0, 1, 30, 128, 128, 1_024, 1_024, 4_000)
LARGE_BODY: Final = 300_000
TOPICS: Final = ("orders", "payments", "a" * 127, "b" * 200)
QUEUES: Final = 8
HOSTS: Final = tuple(
    pack_host(ip, port) for ip, port in (("127.0.0.1", 10_911), ("10.1.2.3", 50_000), ("fe80::1", 50_001))
)
START_TIME: Final = 1_790_000_000_000
DAMAGES: Final = 20
PAGE: Final = 4_096
LOST_TAIL: Final = 65_536

Bytes = NDArray[np.uint8]


def write_log(store: Path, size: int, chance: random.Random) -> None:
    """Fill a store of ``size`` bytes in some files.

    In each there is damage of all kinds. The second has lost its end, and the last one ends with a torn
    record. Behind the BLANK that closes the others there are records that a recovery gave up.
    """
    block, file_size = _Block(chance), size // FILES
    layout.commitlog_dir(store).mkdir(parents=True)
    for number in range(FILES):
        data = np.zeros(file_size, np.uint8)
        end = block.fill(data, number * file_size)
        _spoil(data[:end], chance)
        if number == 1:
            lost = data[end - LOST_TAIL :]
            lost[:] = np.frombuffer(chance.randbytes(len(lost)), np.uint8)
        written = end - block.last_size // 2 if number == FILES - 1 else file_size
        with layout.commitlog_path(store, number * file_size).open("wb") as file:
            file.write(data[:written].data)
            file.truncate(file_size)


class _Block:
    """Records that are made once and written many times.

    Attributes:
        last_size: bytes of the last one.
    """

    def __init__(self, chance: random.Random) -> None:
        records = [encode(_record(number, chance)) for number in range(RECORDS)]
        self.last_size = len(records[-1])
        self._data = np.frombuffer(b"".join(records), np.uint8)
        ends = np.cumsum([len(one) for one in records])
        self._begins = np.append(0, ends[:-1])
        self._written = 0

    def fill(self, data: Bytes, base_offset: int) -> int:
        """Write blocks into a file's bytes, then its BLANK, and another block; give where the BLANK is."""
        size, at = len(self._data), 0
        while at + 2 * size + START_SIZE <= len(data):
            self._put(data, at, base_offset)
            at += size
        data[at : at + START_SIZE] = np.frombuffer(encode_blank(len(data) - at), np.uint8)
        self._put(data, at + START_SIZE, base_offset)
        return at

    def _put(self, data: Bytes, at: int, base_offset: int) -> None:
        data[at : at + len(self._data)] = self._data
        begins = self._begins + at
        numbers = self._written + np.arange(RECORDS)
        self._written += RECORDS
        for place, values in ((QUEUE_OFFSET_AT, numbers), (PHYSICAL_OFFSET_AT, base_offset + begins)):
            data[(begins + place)[:, None] + np.arange(8)] = (
                values.astype(">i8").view(np.uint8).reshape(-1, 8)
            )


def _record(number: int, chance: random.Random) -> Record:
    size = LARGE_BODY if number == RECORDS // 2 else chance.choice(BODY_SIZES)
    body, sys_flag = chance.randbytes(size), 0
    if number % 16 == 0:
        compression = chance.choice(list(CompressionType))
        body, sys_flag = compress(body * 3, compression), compressed_with(0, compression)
    named = {f"property-{at}": "ä" * chance.randrange(20) for at in range(chance.randrange(4))}
    if chance.random() < 0.8:
        named[properties.UNIQ_KEY] = f"{number:032X}"
    if chance.random() < 0.5:
        named |= {properties.KEYS: f"key-{number} other", properties.TAGS: chance.choice("ABCD")}
    return Record(
        topic=chance.choice(TOPICS),
        body=body,
        properties=properties.encode(named),
        queue_id=number % QUEUES,
        queue_offset=0,
        physical_offset=0,
        flag=number,
        sys_flag=sys_flag,
        born_time=START_TIME + number,
        born_host=chance.choice(HOSTS),
        store_time=START_TIME + 2 * number,
        store_host=chance.choice(HOSTS),
        reconsume_times=number % 3,
    )


def _spoil(data: Bytes, chance: random.Random) -> None:
    """Flip bits, overwrite some bytes, and lose pages."""
    for number in range(DAMAGES):
        at = chance.randrange(len(data) - PAGE)
        if number % 3 == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif number % 3 == 1:
            data[at : at + 60] = 255
        else:
            page = at // PAGE * PAGE
            data[page : page + PAGE] = 0
