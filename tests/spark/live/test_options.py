import re

import pytest

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live import options
from cometmq.spark.live.access import ACCESS_OPTIONS
from cometmq.spark.live.options import OPTIONS, READER_GROUP, TopicChoice, parse
from cometmq.spark.live.positions import At, Committed, Earliest, Latest, Since, Until

LEAST = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}


def test_name_servers_and_a_topic_are_enough() -> None:
    parsed = parse(LEAST)
    assert parsed.name_servers == ("127.0.0.1:9876",)
    assert parsed.subscription == TopicChoice(frozenset({"orders"}))
    assert (parsed.start, parsed.end) == (None, Latest())
    assert parsed.fail_on_data_loss


def test_a_batch_takes_its_options() -> None:
    parsed = parse(
        {
            "namesrv": "a:1; b:2",
            "assign": '{"orders": {"broker-a": [0, 2]}}',
            "startingOffsets": '{"orders": {"broker-a": {"0": 5, "2": -2}}}',
            "endingTimestamp": "1700000000000",
            "minPartitions": "4",
            "maxRecordsPerPartition": "10",
            "maxBytesPerPartition": "65536",
            "failOnDataLoss": "false",
            "retrySeconds": "5",
            "tags": "paid || new",
            "columns": "body,topic",
            "decompress": "false",
            "limit": "7",
            "pushFilters": "true",
            "mode": "FAILFAST",
            "group": "readers",
        },
        stream=False,
    )
    queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 2)]
    assert parsed.name_servers == ("a:1", "b:2")
    assert parsed.subscription.queues == frozenset(queues)
    assert parsed.start == At(dict(zip(queues, (5, -2), strict=True)))
    assert (parsed.end, parsed.ending_time) == (Until(1_700_000_000_000), 1_700_000_000_000)
    assert (parsed.min_partitions, parsed.records_per_partition, parsed.bytes_per_partition) == (4, 10, 65536)
    assert (parsed.retry_s, parsed.limit, parsed.group) == (5, 7, "readers")
    assert parsed.tags == frozenset({"paid", "new"})
    assert parsed.columns == ("body", "topic")
    assert parsed.push_filters and parsed.fail_on_damage
    assert not parsed.fail_on_data_loss and not parsed.decompress


def test_queues_may_be_assigned_in_the_shape_of_kafka() -> None:
    given = '{"orders": [0, 2], "paid": {"broker-a": [1]}}'
    subscription = parse({"namesrv": "a:1", "assign": given}).subscription
    queues = [MessageQueue("orders", broker, queue_id) for broker in "ab" for queue_id in range(3)]
    assert [bool(subscription.assigned(queue)) for queue in queues] == [True, False, True] * 2
    assert subscription.assigned(MessageQueue("paid", "broker-a", 1))
    assert not subscription.assigned(MessageQueue("paid", "broker-b", 1))


def test_sizes_and_times_may_have_units() -> None:
    parsed = parse(
        LEAST | {"maxBytesPerTrigger": "64m", "maxBytesPerPartition": "1GB", "maxTriggerDelay": "15m"}
    )
    assert parsed.bytes_per_trigger == 64 << 20 and parsed.bytes_per_partition == 1 << 30
    assert parsed.trigger_delay_s == 900


def test_a_stream_takes_its_options() -> None:
    given = {
        "namesrv": "a:1",
        "subscribePattern": "ord.*",
        "startingTimestamp": "2023-11-14T22:13:20Z",
        "maxOffsetsPerTrigger": "100",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "30",
        "maxBytesPerTrigger": "1000",
        "minPartitions": "4",
        "sql": "size > 3",
    }
    parsed = parse(given, stream=True)
    assert parsed.subscription.pattern == re.compile("ord.*")
    assert parsed.start == Since(1_700_000_000_000)
    assert (parsed.offsets_per_trigger, parsed.offsets_per_trigger_min) == (100, 10)
    assert (parsed.trigger_delay_s, parsed.bytes_per_trigger, parsed.sql) == (30, 1000, "size > 3")
    assert parsed.min_partitions == 4
    assert parsed.expression == "*" and parse(LEAST | {"tags": "b || a"}).expression == "a || b"


@pytest.mark.parametrize(
    ("text", "position"),
    [("Earliest", Earliest()), ("latest", Latest()), ("group:readers", Committed("readers"))],
)
def test_positions_have_names(text: str, position: object) -> None:
    assert parse(LEAST | {"startingOffsets": text}).start == position


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"namesrv": "here"}, "option namesrv: address 'here'"),
        ({"subscribePattern": "x"}, "give one of them, not subscribe and subscribePattern"),
        ({"startingOffsets": "first"}, "give earliest, latest, group:NAME, or offsets as JSON"),
        ({"startingOffsets": "{"}, "no JSON"),
        ({"startingOffsets": '{"a":' * 100_000}, "no JSON"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "give one of them"),
        ({"startingOffsets": "group:a b"}, "option startingOffsets: "),
        ({"tags": "||"}, "option tags: tag expression"),
        ({"tags": "a", "sql": "b = 1"}, "give one of them"),
        ({"group": "a b"}, "option group: "),
        ({"startingOffsetsByTimestamp": "[]"}, "write times by topic and queue"),
        ({"startingOffsetsByTimestamp": "{}", "startingOffsets": "latest"}, "give one of them"),
        ({"endingOffsetsByTimestamp": "{"}, "no JSON"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "give error or latest"),
        ({"groupIdPrefix": "a b"}, "option groupIdPrefix: "),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is above maxOffsetsPerTrigger 4"),
        ({"startingTimestamp": "5", "endingTimestamp": "5"}, "is not after startingTimestamp"),
        ({"subscribes": "a"}, "did you mean subscribe"),
    ],
)
def test_an_error_names_option_value_limit_and_remedy(given: dict[str, str], answer: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(answer)):
        parse(LEAST | given)


@pytest.mark.parametrize(
    ("subscription", "answer"),
    [
        ({}, "give one of them, not none"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": "[]"}, "write queues as"),
        ({"assign": '{"orders": {"broker-a": []}}'}, "name one queue or more"),
        ({"assign": '{"orders": {"broker-a": ["0"]}}'}, "name one queue or more"),
        ({"assign": '{"orders": ["0"]}'}, "name one queue or more"),
        ({"assign": '{"orders": 0}'}, 'or as {"orders": [0, 1]} for each broker'),
    ],
)
def test_what_is_read_must_be_said_in_one_way(subscription: dict[str, str], answer: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(answer)):
        parse({"namesrv": "a:1"} | subscription)


@pytest.mark.parametrize(
    ("name", "stream", "kind"), [("limit", True, "a stream"), ("maxOffsetsPerTrigger", False, "a batch")]
)
def test_options_of_the_other_kind_of_read_are_refused(name: str, stream: bool, kind: str) -> None:
    with pytest.raises(SettingsError, match=f"option {name} is not one of {kind}"):
        parse(LEAST | {name: "1"}, stream=stream)
    parse(LEAST | {name: "1"}, stream=not stream)


def test_messages_are_pulled_in_the_name_of_a_group_that_stays_the_same() -> None:
    assert parse(LEAST).reader_group == READER_GROUP
    prefix = {"groupIdPrefix": "lake"}
    name = parse(LEAST | prefix).reader_group
    assert re.fullmatch("lake-[0-9a-f]{8}", name)
    assert parse(LEAST | prefix | {"startingOffsets": "earliest"}).reader_group == name
    assert parse(LEAST | prefix | {"subscribe": "others"}).reader_group != name
    assert parse(LEAST | prefix | {"group": "own"}).reader_group == "own"
    assert parse(LEAST | prefix).group is None


def test_what_a_session_sets_is_passed_over_where_it_does_not_fit() -> None:
    session = {
        "spark.rocketmq.namesrv": "s:1",
        "spark.rocketmq.subscribe": "everything",
        "spark.rocketmq.maxOffsetsPerTrigger": "5",
        "spark.rocketmq.limit": "6",
        "spark.rocketmq.startingOffsets": "earliest",
    }
    stream = parse(session | {"assign": '{"orders": {"broker-a": [0]}}'}, stream=True)
    assert (stream.name_servers, stream.subscription.topics) == (("s:1",), None)
    assert (stream.offsets_per_trigger, stream.limit, stream.start) == (5, None, Earliest())
    batch = parse(session | LEAST | {"startingTimestamp": "7"}, stream=False)
    assert (batch.name_servers, batch.subscription.topics) == (("127.0.0.1:9876",), frozenset({"orders"}))
    assert (batch.offsets_per_trigger, batch.limit, batch.start) == (None, 6, Since(7))


def test_the_documented_options_are_those_that_exist() -> None:
    documented = re.findall(r"^([a-z]\w+)  +\S", options.__doc__ or "", re.MULTILINE)
    assert documented[0] == "option"
    assert (*documented[1:], *ACCESS_OPTIONS) == OPTIONS
