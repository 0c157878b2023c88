"""The file source's part; ``live/test_answers.py`` has that of several brokers."""

from collections.abc import Mapping
from pathlib import Path

from cometmq.format.compression import decompress
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.options import parse


def rows(columns: tuple[str, ...], **options: str) -> list[dict[str, object]]:
    reader = LogReader(parse(options), columns)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_the_broker_of_files_is_what_the_reader_says(golden: Mapping[str, Path]) -> None:
    path = str(golden["store-killed"])
    unnamed, named = rows(("broker",), path=path), rows(("queue_id", "broker"), path=path, broker="broker-a")
    assert len(unnamed) == len(named) > 500
    assert {row["broker"] for row in unnamed} == {None}
    assert {row["broker"] for row in named} == {"broker-a"} and list(named[0]) == ["queue_id", "broker"]


def test_bodies_come_as_they_are_stored_if_asked(golden: Mapping[str, Path]) -> None:
    path, columns = str(golden["store-clean"]), ("body", "sys_flag")
    whole, stored = (rows(columns, path=path, decompress=value) for value in ("true", "false"))
    assert whole != stored
    for row in stored:
        assert isinstance(row["body"], bytes) and isinstance(row["sys_flag"], int)
        row["body"] = decompress(row["body"], row["sys_flag"])
    assert whole == stored
