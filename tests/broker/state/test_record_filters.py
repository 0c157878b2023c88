from pathlib import Path

from tests.store.conftest import new_message

from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.record_filters import RetryFilter, SqlFilter
from cometmq.filter import sql92
from cometmq.filter.bloom import BloomFilter
from cometmq.format import properties
from cometmq.format.record import Record, encode
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import SubscriptionData

LARGE = sql92.compile("size > 3")


def record(**named: str) -> bytes:
    message = new_message()
    return encode(
        Record(
            message.topic,
            message.body,
            properties.encode(named),
            queue_id=0,
            queue_offset=0,
            physical_offset=0,
            flag=0,
            sys_flag=0,
            born_time=1,
            born_host=message.born_host,
            store_time=1,
            store_host=message.store_host,
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
    )


def test_a_record_is_judged_by_its_properties() -> None:
    wanted = SqlFilter(LARGE)
    assert wanted.matches(record(size="4"))
    assert not wanted.matches(record(size="3"))
    assert not wanted.matches(record())


def test_a_retried_record_is_judged_by_the_topic_that_it_came_from(tmp_path: Path) -> None:
    table = JsonTable(Disk(), tmp_path / "consumerFilter.json")
    filters = ConsumerFilters(table, ManualClock(), BloomFilter(20, 32), keep_ms=1)
    filters.register("g", [SubscriptionData("T", LARGE.expression, "SQL92")])
    wanted = RetryFilter(filters, "g")
    assert wanted.matches(record(size="4", RETRY_TOPIC="T"))
    assert not wanted.matches(record(size="3", RETRY_TOPIC="T"))
    assert wanted.matches(record(size="3", RETRY_TOPIC="U"))
    assert wanted.matches(record(size="3"))


def test_work_grows_with_the_filter_and_with_the_record(tmp_path: Path) -> None:
    long = sql92.compile(" OR ".join([LARGE.expression] * 100))
    small, large = record(size="4"), record(size="4", other="x" * 30_000)
    assert SqlFilter(LARGE).work(small) == len(LARGE.expression)
    assert SqlFilter(long).work(small) > 100 * SqlFilter(LARGE).work(small)
    assert SqlFilter(LARGE).work(large) > 100 * SqlFilter(LARGE).work(small)
    table = JsonTable(Disk(), tmp_path / "consumerFilter.json")
    retries = RetryFilter(ConsumerFilters(table, ManualClock(), BloomFilter(20, 32), keep_ms=1), "g")
    assert retries.work(large) > 100 * retries.work(small) > 0
