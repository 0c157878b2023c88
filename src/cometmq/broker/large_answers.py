"""Answers about very many topics, groups or queues: looked up in parts, written in a thread.

They are readings (``store/read/reading.py``), so what holds of answers that wait for the disk holds of
them, too: of each connection a few are under way, and none is made before its peer has room for it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from cometmq.store.read.reading import InThread, Reading
from cometmq.wire.bodies import Body, encode
from cometmq.wire.frame import Command, response

TURN_MAX: Final = 500
"""So many entries are looked up within one turn of the loop, and are written there; more in a thread."""


def encoded(body: Body, count: int) -> Reading[bytes]:
    """Return a body of so many entries as bytes; nobody may change it meanwhile."""
    return made(partial(encode, body), count)


def made(make: Callable[[], bytes], count: int) -> Reading[bytes]:
    """Return what is made of so many entries, in a thread if they are many."""
    if count <= TURN_MAX:
        return make()
    data: bytes = yield InThread(make)
    return data


def with_body(command: Command, body: bytes, ext_fields: dict[str, str] | None = None) -> Command:
    """Return the answer to a request that has this body."""
    return response(command, ext_fields=ext_fields, body=body)
