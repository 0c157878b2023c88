"""Gathering records into Arrow columns by kernels; numpy's arrays become Arrow's buffers without a copy."""

from collections.abc import Collection
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from cometmq.format.host import host_text
from cometmq.kernels.arrays import Bytes, Flags, Ints, Longs
from cometmq.kernels.arrow.gather import copy_pieces, set_offsets, write_offset_ids
from cometmq.kernels.arrow.plain import SIZE_MAX, TIME_MAX_MS, TYPES, schema
from cometmq.kernels.ops import Scan
from cometmq.kernels.text.numbering import number_texts
from cometmq.kernels.text.properties import find_known, split_keys, split_properties
from cometmq.message import Buffer

Array: TypeAlias = "pa.Array[Any]"

# pyarrow's stubs declare fewer forms of arguments than these functions accept.
_list_array: Any = pa.ListArray.from_arrays
_map_array: Any = pa.MapArray.from_arrays

_KNOWN: Final = ("unique_id", "tags", "keys")


def gather(buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]) -> pa.RecordBatch:
    """Gather records into Arrow columns: see ``ops.Ops.arrow``."""
    wanted = schema(columns)
    records = _Records(np.frombuffer(buffer, np.uint8), scan, rows)
    return pa.record_batch([records.column(name) for name in columns], schema=wanted)


class _Records:
    """The chosen records, with the positions that several columns share."""

    def __init__(self, data: Bytes, scan: Scan, rows: Longs) -> None:
        self._data = data
        self._scan = scan
        self._rows = rows
        self._found: dict[str, tuple[Longs, Longs]] = {}

    def column(self, name: str) -> Array:
        """Build the column of this name, with its type in ``TYPES``."""
        match name:
            case "topic" | "body":
                begins, lengths = self._part(name)
                return self._pieces(begins, begins + lengths, TYPES[name])
            case "unique_id" | "tags":
                begins, ends = self._known(name)
                return self._pieces(begins, ends, TYPES[name], begins < ends)
            case "keys":
                return self._keys()
            case "properties":
                return self._properties()
            case "born_host" | "store_host":
                return self._hosts(name)
            case "offset_id":
                return self._offset_ids()
            case "born_time" | "store_time":
                return _numbers(np.clip(self._take(name), -TIME_MAX_MS, TIME_MAX_MS) * 1000, TYPES[name])
            case _:
                return _numbers(self._take(name), TYPES[name])

    def _take(self, field: str) -> Any:
        return getattr(self._scan, field)[self._rows]

    def _part(self, name: str) -> tuple[Longs, Ints]:
        return self._take(f"{name}_position"), self._take(f"{name}_length")

    def _known(self, name: str) -> tuple[Longs, Longs]:
        if not self._found:
            places = np.empty((2 * len(_KNOWN), len(self._rows)), np.int64)
            find_known(self._data, *self._part("properties"), *places)
            self._found = dict(zip(_KNOWN, zip(places[::2], places[1::2], strict=True), strict=True))
        return self._found[name]

    def _keys(self) -> Array:
        offsets = np.empty(len(self._rows) + 1, np.int32)
        begins, ends = split_keys(self._data, *self._known("keys"), offsets)
        keys = self._pieces(begins, ends, pa.string())
        lists: Array = _list_array(_numbers(offsets, pa.int32()), keys, type=TYPES["keys"])
        return lists

    def _properties(self) -> Array:
        offsets = np.empty(len(self._rows) + 1, np.int32)
        names, names_end, values, values_end = split_properties(
            self._data, *self._part("properties"), offsets
        )
        maps: Array = _map_array(
            _numbers(offsets, pa.int32()),
            self._pieces(names, names_end, pa.string()),
            self._pieces(values, values_end, pa.string()),
            type=TYPES["properties"],
        )
        return maps

    def _hosts(self, name: str) -> Array:
        """Build a column of hosts, formatting each distinct host once: a log has few of them."""
        positions, lengths = self._part(name)
        numbers = np.empty(len(positions), np.int32)
        firsts = number_texts(self._data, positions, lengths, np.zeros_like(lengths), numbers)
        hosts = [
            host_text(self._data[begin : begin + length].tobytes())
            for begin, length in zip(positions[firsts].tolist(), lengths[firsts].tolist(), strict=True)
        ]
        return pa.array(hosts, TYPES[name]).take(_numbers(numbers, pa.int32()))

    def _offset_ids(self) -> Array:
        positions, lengths = self._part("store_host")
        offsets = np.zeros(len(positions) + 1, np.int64)
        np.cumsum(2 * (lengths.astype(np.int64) + 8), out=offsets[1:])
        narrow = _narrow(offsets)
        data = np.empty(offsets[-1], np.uint8)
        write_offset_ids(self._data, positions, lengths, self._take("physical_offset"), narrow, data)
        return _texts(narrow, data, TYPES["offset_id"])

    def _pieces(
        self, begins: Longs, ends: Longs, arrow_type: pa.DataType, valid: Flags | None = None
    ) -> Array:
        is_text = arrow_type == pa.string()
        offsets = np.empty(len(begins) + 1, np.int32)
        size = set_offsets(self._data, begins, ends, is_text, offsets)
        _check_size(size)
        data = np.empty(size, np.uint8)
        copy_pieces(self._data, begins, ends, is_text, offsets, data)
        return _texts(offsets, data, arrow_type, valid)


def _numbers(array: Any, arrow_type: pa.DataType) -> Array:
    return pa.Array.from_buffers(arrow_type, len(array), [None, pa.py_buffer(array.data)])


def _texts(offsets: Ints, data: Bytes, arrow_type: pa.DataType, valid: Flags | None = None) -> Array:
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").data)
    return pa.Array.from_buffers(
        arrow_type, len(offsets) - 1, [bits, pa.py_buffer(offsets.data), pa.py_buffer(data.data)]
    )


def _narrow(offsets: Longs) -> Ints:
    _check_size(int(offsets[-1]))
    return offsets.astype(np.int32)


def _check_size(size: int) -> None:
    if size > SIZE_MAX:
        raise OverflowError(
            f"an Arrow column holds at most {SIZE_MAX} bytes, this one needs {size}: choose fewer records"
        )
