"""Start several streams in one program, one after the other."""

from contextlib import suppress
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

INITIALIZING: Final = "Initializing sources"
"""The first status of a stream, from Spark's ``StreamExecution.scala``."""
LOOK_S: Final = 1


def started(query: StreamingQuery) -> StreamingQuery:
    """Wait until a stream has created its source, or has failed to; return the stream.

    Start the next stream only then. If two create their sources at the same moment, Spark (4.3 does) can
    miscount the environment variables of this source's Python for the rest of the program: all reads fail
    with "Illegal size 5 of collection, expected 6". Spark keeps them in one map for all streams, without a
    lock.
    """
    while query.isActive and query.status["message"] == INITIALIZING:
        with suppress(StreamingQueryException):  # raised again for the program that waits for the stream
            query.awaitTermination(LOOK_S)
    return query
