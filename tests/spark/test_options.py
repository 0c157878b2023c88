import re
from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.spark import options
from cometmq.spark.files.remote import path_of
from cometmq.spark.options import OPTIONS, ReadOptions, parse


def test_a_path_alone_reads_everything() -> None:
    assert parse({"path": "/store"}) == ReadOptions((Path("/store"),))


def test_several_paths_come_as_spark_writes_them() -> None:
    paths = (Path("/a/store"), path_of("s3://b/store"))
    assert parse({"paths": '["/a/store", "s3://b/store"]'}) == ReadOptions(paths)


def test_every_option_is_understood_in_any_case() -> None:
    parsed = parse(
        {
            "PATH": "file:///my%20store",
            "topic": "TopicA, %RETRY%group",
            "tags": "TagA || TagB",
            "key": "order-7",
            "columns": "Body,TOPIC",
            "decompress": "FALSE",
            "broker": "broker-a",
            "limit": "10",
            "startingtimestamp": "1700000000000",
            "endingTimestamp": "2026-01-31T09:00:00.250+08:00",
            "maxBytesPerPartition": "64k",
            "mode": "failfast",
        }
    )
    assert parsed == ReadOptions(
        paths=(Path("/my store"),),
        topics=frozenset({"TopicA", "%RETRY%group"}),
        columns=("body", "topic"),
        limit=10,
        starting_time=1_700_000_000_000,
        ending_time=1_769_821_200_250,
        bytes_per_partition=65536,
        broker="broker-a",
        decompress=False,
        fail_on_damage=True,
        tags=frozenset({"TagA", "TagB"}),
        key="order-7",
    )


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("topics", "A", "option topics is not known: did you mean topic?"),
        ("frobnicate", "1", "option frobnicate is not known: use some of path, paths"),
        ("path", "", "option path is missing: give the store directory to load()"),
        ("paths", "a, b", 'option paths a, b: write ["a/store", "b/store"]'),
        ("paths", "[" * 100_000, 'write ["a/store", "b/store"]'),
        ("topic", "a/b", "option topic a/b: topic 'a/b': use only the characters"),
        ("topic", " , ", "option topic is empty: give one name or more"),
        ("columns", "topic,bodi", "there is no column bodi, use some of topic, broker"),
        ("columns", "topic,topic", "topic is there more than once"),
        ("columns", "msg_id", "option columns: there is no column msg_id, use unique_id, which"),
        ("broker", " ", "option broker is empty: give a value, or leave it out"),
        ("decompress", "no", "option decompress no: give true or false"),
        ("limit", "0", "option limit 0: give a whole number from 1 to"),
        ("limit", "ten", "option limit ten: give a whole number from 1 to"),
        ("maxBytesPerPartition", "1", "option maxBytesPerPartition 1: give a whole number from 4096 to"),
        ("startingTimestamp", "yesterday", "give ms since the epoch, or ISO 8601 with a zone"),
        ("startingTimestamp", "2026-01-31T09:00:00", "ISO 8601 with a zone"),
        ("endingTimestamp", "-5", "give ms since the epoch"),
        ("maxBytesPerPartition", "1q", "give bytes, or a number with k, m, g or t: 64m"),
        ("tags", "||", "option tags: tag expression"),
        ("key", "a b", "option key 'a b': give one key, which holds no blank"),
        ("mode", "DROPMALFORMED", "option mode DROPMALFORMED: give PERMISSIVE or FAILFAST"),
    ],
)
def test_an_error_names_option_value_limit_and_remedy(name: str, value: str, answer: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(answer)):
        parse({"path": "/store", name: value})


def test_a_span_of_time_that_holds_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="endingTimestamp 1000 is not after startingTimestamp 1000"):
        parse({"path": "/store", "startingTimestamp": "1000", "endingTimestamp": "1000"})


def test_the_documented_options_are_those_that_exist() -> None:
    documented = re.findall(r"^([a-z]\w+)  +\w", options.__doc__ or "", re.MULTILINE)
    assert documented[0] == "option"
    assert tuple(documented[1:]) == OPTIONS
