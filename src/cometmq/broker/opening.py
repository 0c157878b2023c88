"""What a broker does with its store before it serves: it opens it, and finds again what a kill has taken."""

import asyncio
from pathlib import Path

from cometmq.broker.assembly import Assembly
from cometmq.broker.requests.pop.handed_out import restore_offsets
from cometmq.format import layout
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger
from cometmq.replication.copies import SlaveTables
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

_log = get_logger(__name__)


async def open_store(root: Path, settings: StoreSettings, files: FileLayer, clock: Clock) -> MessageStore:
    """Open a broker's store in a thread: recovery may take long, and the loop must not block.

    Raises StoreLocked, StoreDamaged, StoreNotWritable or OSError.
    """
    run_soon = asyncio.get_running_loop().call_soon_threadsafe
    return await asyncio.to_thread(
        MessageStore.open, root, settings, files=files, clock=clock, run_soon=run_soon
    )


async def restore_pop_offsets(
    store: MessageStore, parts: Assembly, files: FileLayer, revive_queue_count: int
) -> None:
    """Find the offsets of pops again that a killed broker had not saved. Raises OSError."""
    path = layout.config_path(store.root, "consumerOffset")
    saved_ms = files.modified_ms(path) if files.exists(path) else 0
    queues = parts.revive.topic, revive_queue_count
    moved = await restore_offsets(store, parts.offsets, parts.groups, *queues, saved_ms)
    if moved:
        _log.info("%d offsets of pops were not saved, and are found in the log", moved)


def slave_tables(parts: Assembly) -> SlaveTables:
    """Return the tables that a slave copies from its master."""
    return SlaveTables(
        parts.topics.follow_master,
        parts.groups.follow_master,
        parts.offsets.follow_master,
        parts.schedule.follow_master,
        parts.modes.follow_master,
        parts.timed_messages.follow_master,
    )
