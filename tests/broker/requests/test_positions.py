from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import serving

from cometmq.broker.requests import positions
from cometmq.format.java.java_hash import tags_code
from cometmq.wire import headers
from cometmq.wire.bodies import ListedEntries, decode
from cometmq.wire.codes import RequestCode, ResponseCode


async def test_the_ends_of_a_queue_and_a_time_in_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        begin = bench.clock.now_ms()
        for _ in range(3):
            await bench.send("T")
            bench.clock.advance(1_000)

        async def offset(code: RequestCode, header: headers.Header) -> int:
            return int((await bench.ask(code, header)).ext_fields["offset"])

        assert await offset(RequestCode.GET_MIN_OFFSET, headers.GetMinOffsetHeader("T", 0)) == 0
        assert await offset(RequestCode.GET_MAX_OFFSET, headers.GetMaxOffsetHeader("T", 0)) == 3
        assert await offset(RequestCode.GET_MAX_OFFSET, headers.GetMaxOffsetHeader("T", 9)) == 0
        search = headers.SearchOffsetHeader("T", 0, begin + 500)
        assert await offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search) == 1
        upper = replace(search, boundary="UPPER")
        assert await offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, upper) == 0
        earliest = headers.GetEarliestStoreTimeHeader("T", 0)
        answer = await bench.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, earliest)
        assert answer.ext_fields["timestamp"] == str(begin)
        nothing = headers.GetEarliestStoreTimeHeader("T", 9)
        answer = await bench.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, nothing)
        assert answer.ext_fields["timestamp"] == "-1"


async def test_the_entries_of_a_queue_say_where_records_lie_and_how_long_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as bench:
        for n in range(3):
            await bench.send("T", bytes(100 * n + 1), TAGS=f"tag{n}")

        async def listed(queue_offset: int, count: int, queue_id: int = 0) -> ListedEntries:
            header = headers.QueryConsumeQueueHeader("T", queue_id, queue_offset, count)
            answer = await bench.ask(RequestCode.QUERY_CONSUME_QUEUE, header)
            assert answer.code == ResponseCode.SUCCESS
            return decode(ListedEntries, answer.body)

        whole = await listed(0, 1_000)
        assert (whole.min_offset, whole.max_offset) == (0, 3)
        assert [one.tags_code for one in whole.entries] == [tags_code(f"tag{n}") for n in range(3)]
        first, second, third = whole.entries
        assert second.physical_offset == first.physical_offset + first.size
        assert third.size - second.size == 100
        assert (await listed(1, 1)).entries == [second]
        for queue_offset, count, queue_id in ((3, 1, 0), (-1, 5, 0), (0, 0, 0), (0, -1, 0), (0, 1, 9)):
            assert (await listed(queue_offset, count, queue_id)).entries == []
        monkeypatch.setattr(positions, "ENTRIES_MAX", 2)
        assert len((await listed(0, 1_000)).entries) == 2


async def test_an_offset_is_committed_and_given_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        commit = headers.UpdateConsumerOffsetHeader("cg", "T", 0, 1)
        assert (await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        query = headers.QueryConsumerOffsetHeader("cg", "T", 0)
        answer = await bench.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
        assert answer.ext_fields["offset"] == "1"


async def test_a_new_group_gets_zero_where_the_queue_is_young_unless_it_does_not_want_to(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        query = headers.QueryConsumerOffsetHeader("new", "T", 0)
        for queue_id in (0, 1):  # the other one has no message yet
            answer = await bench.ask(RequestCode.QUERY_CONSUMER_OFFSET, replace(query, queue_id=queue_id))
            assert answer.ext_fields["offset"] == "0"
        strict = replace(query, set_zero_if_not_found=False)
        answer = await bench.ask(RequestCode.QUERY_CONSUMER_OFFSET, strict)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("group", "topic", "code"),
    [
        ("cg", "none", ResponseCode.TOPIC_NOT_EXIST),
        ("unknown", "T", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_an_offset_of_nothing_known_is_refused(
    tmp_path: Path, group: str, topic: str, code: ResponseCode
) -> None:
    async with serving(tmp_path, auto_create_subscription_group=group == "cg") as bench:
        await bench.send("T")
        commit = headers.UpdateConsumerOffsetHeader(group, topic, 0, 1)
        assert (await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == code
