import numpy as np
import pyarrow as pa
import pytest

from cometmq.format.compression import compress
from cometmq.format.sys_flag import COMPRESSED, CompressionType, compressed_with
from cometmq.spark.files.bodies import decompress_bodies

ZLIB = compressed_with(0, CompressionType.ZLIB)


def batch_of(*bodies: bytes) -> pa.RecordBatch:
    return pa.record_batch({"number": list(range(len(bodies))), "body": pa.array(bodies, pa.binary())})


def bodies_of(batches: list[pa.RecordBatch]) -> list[list[bytes | None]]:
    return [batch.column("body").to_pylist() for batch in batches]


def refuse(damage: str) -> None:
    pytest.fail(damage)


def test_compressed_bodies_are_made_whole_and_others_stay() -> None:
    whole = [b"as it is", b"by zlib", b"", b"by zstd"]
    kinds = [None, CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD]
    stored = [body if kind is None else compress(body, kind) for body, kind in zip(whole, kinds, strict=True)]
    flags = np.array([0 if kind is None else compressed_with(0, kind) for kind in kinds], np.int32)
    (batch,) = decompress_bodies(batch_of(*stored), flags, on_damage=refuse)
    assert batch.column("body").to_pylist() == whole
    assert batch.schema == batch_of(b"").schema


def test_a_batch_without_bodies_is_left_alone() -> None:
    batch = pa.record_batch({"number": [1, 2]})
    assert list(decompress_bodies(batch, np.array([ZLIB, 0], np.int32), on_damage=refuse)) == [batch]


def test_a_batch_that_grows_large_is_given_in_parts() -> None:
    bodies = [bytes([number]) * 400 for number in range(5)]
    stored = [compress(body, CompressionType.ZLIB) for body in bodies]
    made = list(
        decompress_bodies(batch_of(*stored), np.full(5, ZLIB, np.int32), on_damage=refuse, bytes_max=1000)
    )
    assert bodies_of(made) == [bodies[:2], bodies[2:4], bodies[4:]]
    assert [batch.column("number").to_pylist() for batch in made] == [[0, 1], [2, 3], [4]]


def test_a_body_that_cannot_be_decompressed_is_null_and_told() -> None:
    told: list[str] = []
    flags = np.array([0, COMPRESSED, ZLIB], np.int32)
    stored = batch_of(b"as it is", b"no zlib stream", compress(b"whole", CompressionType.ZLIB))
    (batch,) = decompress_bodies(stored, flags, on_damage=told.append)
    assert batch.column("body").to_pylist() == [b"as it is", None, b"whole"]
    assert "compressed body of 14 bytes" in told[0]


def test_a_column_says_of_each_body_what_is_wrong_with_it() -> None:
    stored = [b"as it is", b"no zlib stream", compress(b"whole", CompressionType.ZLIB), b"neither"]
    batch = batch_of(*stored).append_column("body_error", pa.nulls(len(stored), pa.string()))
    flags = np.array([0, COMPRESSED, ZLIB, COMPRESSED | 7 << 8], np.int32)
    (made,) = decompress_bodies(batch, flags, on_damage=lambda _: None)
    assert made.column("body").to_pylist() == [b"as it is", None, b"whole", None]
    sound, damaged, whole, unknown = made.column("body_error").to_pylist()
    assert (sound, whole) == (None, None)
    assert "compressed body of 14 bytes" in str(damaged) and "unknown compression type 7" in str(unknown)
    assert made.schema == batch.schema
