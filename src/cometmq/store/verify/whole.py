"""Verify a whole store: the order of the checks, and their result.

A store is *damaged* if bytes are lost or wrong. It *needs recovery* if it was not closed and has only what a
killed process leaves (an ``abort`` file, a torn tail, entries not written yet): the next start corrects that
by itself, so it is no damage. A store that is open in another process looks like that too.
"""

from enum import Enum
from pathlib import Path
from typing import NamedTuple

from cometmq import kernels
from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.progress import Progress
from cometmq.store.settings import StoreSettings
from cometmq.store.verify.findings import Findings
from cometmq.store.verify.index import IndexCheck
from cometmq.store.verify.log import LogWalk
from cometmq.store.verify.queues import QueueCheck, claimed_end, list_queues, redispatched_from
from cometmq.store.verify.tables import check_checkpoint, check_tables


class State(Enum):
    """The state of a store."""

    SOUND = "sound"
    NEEDS_RECOVERY = "needs recovery"
    DAMAGED = "damaged"


class Verified(NamedTuple):
    """The result of a verification.

    Attributes:
        messages: readable records.
        bytes: size of the log from its first byte to the end of the last record.
        queues: ConsumeQueues that have files.
        index_entries: entries of the index files.
    """

    state: State
    findings: list[Finding]
    messages: int
    bytes: int
    queues: int
    index_entries: int


def verify(
    directory: Path | str,
    settings: StoreSettings | None = None,
    *,
    layer: FileLayer | None = None,
    progress: Progress | None = None,
) -> Verified:
    """Verify a store; nothing is written, not even the lock.

    Args:
        settings: of the broker; by default the sizes are inferred from the files.
        progress: called with the bytes of the log that are done, and the total.

    Raises:
        SettingsError: there is no store, or its sizes cannot be inferred.
        OSError: a file cannot be read.
    """
    with StoreDirectory(Path(directory), settings, layer) as store:
        findings = Findings()
        findings.add_all([*store.findings, *not_closed(store)])
        walk = LogWalk(store, findings)
        listed = list_queues(store, findings)
        claimed = claimed_end(store, listed)
        recovered_from = redispatched_from(store, claimed)
        queues = QueueCheck(store, walk, findings, listed, recovered_from)
        index = IndexCheck(store, walk, findings, None if store.was_closed else recovered_from)
        total = store.data_bytes()
        kernels.load_for(total)
        for chunk in walk:
            dispatch = kernels.loading.ops.dispatch(chunk.buffer, chunk.scan, store.delay_levels)
            queues.check(chunk, dispatch)
            index.check(chunk, dispatch)
            store.drop_pages()
            if progress is not None:
                progress(chunk.end_offset - walk.begin_offset, total)
        walk.check_end(claimed)
        queues.finish()
        index.finish()
        check_checkpoint(store, walk.last_time, findings)
        check_tables(store, findings)
        size = walk.end_offset - walk.begin_offset
        return Verified(state_of(findings), list(findings), walk.messages, size, len(listed), index.entries)


def not_closed(store: StoreDirectory) -> list[Finding]:
    """Return the finding of a store that was not closed; none if it was."""
    path, what = layout.abort_path(store.root), "the store was not closed, or is open now"
    finding = Finding(Severity.RECOVERY, path, None, None, what, "the next start recovers it")
    return [] if store.was_closed else [finding]


def state_of(findings: Findings) -> State:
    """Return the state of a store by its findings."""
    if findings.has(Severity.DAMAGE):
        return State.DAMAGED
    return State.NEEDS_RECOVERY if findings.has(Severity.RECOVERY) else State.SOUND
