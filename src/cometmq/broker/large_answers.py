"""Answers about very many topics, groups or queues: collected in parts, encoded in a thread.

They are readings (``store/reading.py``), with the same limits as answers that wait for the disk: a few
of each connection are under way, and none is built before its peer has room for it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from cometmq.store.reading import Reading, ThreadStep
from cometmq.wire.bodies import Body, encode
from cometmq.wire.frame import Command, response

EntryT = TypeVar("EntryT")

TURN_MAX: Final = 500
"""Most entries that one turn of the loop collects; answers with more are encoded in a thread."""


def encoded(body: Body, count: int) -> Reading[bytes]:
    """Encode a body with ``count`` entries; it must not be changed meanwhile."""
    return made(partial(encode, body), count)


def made(make: Callable[[], bytes], count: int) -> Reading[bytes]:
    """Return the bytes of ``make``, which encodes ``count`` entries: in a thread if they are many."""
    if count <= TURN_MAX:
        return make()
    data: bytes = yield ThreadStep(make)
    return data


def page(entries: Mapping[str, EntryT], first: int | None, max_count: int | None) -> dict[str, EntryT]:
    """Return a copy of all entries, or of at most ``max_count`` from the ``first`` one on, by name."""
    if max_count is None:
        return dict(entries)
    begin = first or 0
    return {name: entries[name] for name in sorted(entries)[begin : begin + max_count]}


def with_body(command: Command, body: bytes, ext_fields: dict[str, str] | None = None) -> Command:
    """Return the response to a request with a body."""
    return response(command, ext_fields=ext_fields, body=body)
