from cometmq.wire import bodies

FILTER = bodies.ConsumerFilterData(
    "cg", "T", "a > 1", "SQL92", 1, bloom=bodies.BloomData(112, (21, 54, 18)), client_version=2
)
TEXT = (
    b'{"filterDataByTopic":{"T":{"groupFilterData":{"cg":{"bloomFilterData":{"bitNum":112,"bitPos":[21,54,18]},'
    b'"bornTime":1,"clientVersion":2,"consumerGroup":"cg","dead":false,"deadTime":0,"expression":"a > 1",'
    b'"expressionType":"SQL92","topic":"T"}},"topic":"T"}}}'
)


def test_filters_are_written_as_rocketmq_writes_them_and_read_again() -> None:
    table = bodies.ConsumerFilterTable({"T": bodies.TopicFilters("T", {"cg": FILTER})})
    assert bodies.encode(table) == TEXT
    assert bodies.decode(bodies.ConsumerFilterTable, TEXT) == table
