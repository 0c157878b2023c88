"""Read a queue's entries from its files, and from the tail that is not in them yet.

``tail`` holds the entries from queue offset ``tail_start`` on, the files those before it. The functions
return the entries from queue offset ``begin`` to before ``end``, 20 bytes each.
"""

from cometmq.format.queue_entry import SIZE
from cometmq.message import Buffer
from cometmq.store.files.file_chain import FileChain
from cometmq.store.reading import Reading, ReadStep


def resident(chain: FileChain, tail: bytearray, tail_start: int, begin: int, end: int) -> Buffer | None:
    """Return entries that are all in the tail, or in one file and in memory (nearly always); else None."""
    if begin >= tail_start:
        return tail[(begin - tail_start) * SIZE : (end - tail_start) * SIZE]
    start = chain.start_of(begin * SIZE)
    if end > tail_start or start is None or end * SIZE > start + chain.file_size:
        return None
    return chain.file(start).read_ready(begin * SIZE - start, (end - begin) * SIZE)


def entries(chain: FileChain, tail: bytearray, tail_start: int, begin: int, end: int) -> Reading[Buffer]:
    """Read entries, fewer where files are missing."""
    behind = tail[max(begin - tail_start, 0) * SIZE : max(end - tail_start, 0) * SIZE]
    position, written_end = begin * SIZE, min(end, tail_start) * SIZE
    parts: list[Buffer] = []
    while position < written_end and (start := chain.start_of(position)) is not None:
        size = min(written_end, start + chain.file_size) - position
        found = yield ReadStep(chain.files, chain.path(start), [(position - start, size)])
        if found is None:
            break
        parts += found
        position += size
    parts += [behind] if behind and position >= written_end else []
    return parts[0] if len(parts) == 1 else b"".join(parts)
