"""Parsing a SEND_MESSAGE_V2 header inside kernels: its fields are the letters ``a`` to ``n``."""

from typing import Final

from cometmq.kernels.headers.compiled import readers_of

NAMES: Final = tuple(bytes((letter,)) for letter in b"abcdefghijklmn")
(
    _GROUP,
    TOPIC,
    _DEFAULT_TOPIC,
    QUEUE_COUNT,
    QUEUE_ID,
    SYS_FLAG,
    BORN_TIME,
    FLAG,
    PROPERTIES,
    RECONSUME_TIMES,
    UNIT_MODE,
    RECONSUME_TIMES_MAX,
    BATCH,
    _BROKER_NAME,
) = range(len(NAMES))
REQUIRED: Final = PROPERTIES + 1
"""How many fields, from the first on, are required; the properties, with the unique key, are the last."""

read_json, read_binary = readers_of(NAMES, unescaped=PROPERTIES)
