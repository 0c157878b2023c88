"""Several streams in one program: one is started after the other."""

from contextlib import suppress
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

INITIALIZING: Final = "Initializing sources"
"""Spark's word for what a stream does first, from Spark's ``StreamExecution.scala``."""
LOOK_S: Final = 1


def started(query: StreamingQuery) -> StreamingQuery:
    """Wait until a stream has made its source, or has failed to, and give it back: then start the next one.

    Two that are at it in the same moment can make Spark (4.3 does) count the environment variables of this
    source's Python wrong for as long as the program runs: all its reads fail then, with "Illegal size 5 of
    collection, expected 6". Spark keeps them in one map for all streams, and locks nothing.
    """
    while query.isActive and query.status["message"] == INITIALIZING:
        with suppress(StreamingQueryException):  # who waits for its end is told
            query.awaitTermination(LOOK_S)
    return query
