"""Parsing a PULL_MESSAGE header inside kernels: see ``headers.compiled``."""

from typing import Final

from cometmq.kernels.headers.compiled import readers_of

NAMES: Final = (
    b"consumerGroup",
    b"topic",
    b"queueId",
    b"queueOffset",
    b"maxMsgNums",
    b"sysFlag",
    b"commitOffset",
    b"suspendTimeoutMillis",
    b"subscription",
    b"subVersion",
    b"expressionType",
    b"maxMsgBytes",
)
(
    GROUP,
    TOPIC,
    QUEUE_ID,
    QUEUE_OFFSET,
    COUNT,
    SYS_FLAG,
    COMMIT_OFFSET,
    SUSPEND_MS,
    SUBSCRIPTION,
    VERSION,
    EXPRESSION_TYPE,
    BYTES,
) = range(len(NAMES))
REQUIRED: Final = SUBSCRIPTION
"""How many of the fields, from the first on, are required."""

read_json, read_binary = readers_of(NAMES)
