"""When the next stream may be started."""

from typing import cast

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from cometmq.spark import started


class Query:
    """Reports one status after the other, and fails when there are no more."""

    def __init__(self, *messages: str) -> None:
        self.messages = list(messages)

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name
        return bool(self.messages)

    @property
    def status(self) -> dict[str, str]:
        return {"message": self.messages[0]}

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802  Spark's name
        assert timeout > 0
        del self.messages[0]
        if not self.messages:
            raise StreamingQueryException("its source cannot be made")
        return False


def test_a_stream_has_started_when_it_has_its_source() -> None:
    query = Query("Initializing sources", "Initializing sources", "Waiting for data to arrive")
    started(cast(StreamingQuery, query))
    assert query.messages == ["Waiting for data to arrive"]


def test_nobody_waits_for_a_stream_that_has_failed() -> None:
    query = cast(StreamingQuery, Query("Initializing sources"))
    assert started(query) is query
    assert not query.isActive
