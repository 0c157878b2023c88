"""What a running master does in its set: it begins its epoch, and knows which slaves have what of its log."""

import asyncio

from cometmq.replication.controller.feed import EpochFeed
from cometmq.replication.controller.in_sync_set import InSyncSet
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.controller.set_acks import SetAcks
from cometmq.replication.settings import ReplicationSettings
from cometmq.store.store import MessageStore


class MasterPart:
    """One master's part in its set.

    With ``allAckInSyncStateSet`` nothing may be read before all in sync have it: so nobody reads what an
    election could take back.

    Args:
        store: open, and nothing is appended to it yet.

    Attributes:
        acks: what the slaves have acknowledged.

    Raises:
        FormatError: the log has records of a later epoch.
    """

    def __init__(self, store: MessageStore, settings: ReplicationSettings, membership: SetMembership) -> None:
        self._store = store
        self._settings = settings
        self._file = membership.epochs
        news, own_id = membership.news, membership.own_id
        self._epochs = self._file.epochs.cut_before(store.min_offset).begin(
            news.epoch, store.written_offset, is_whole=store.recovered.clean
        )
        all_ack = settings.all_ack_in_sync_state_set
        members = news.in_sync | {own_id}
        self.acks = SetAcks(
            InSyncSet(own_id, self._epochs.entries[-1], members, news.set_epoch, all_ack=all_ack),
            None if all_ack else settings.awaited_acks,
            lambda: store.written_offset,
            store.clock.monotonic_ms,
            membership.overseer.propose,
        )
        if all_ack:
            store.limit_reads(lambda: self.acks.confirm_offset)
            self.acks.on_change.append(store.limit_moved)

    async def start(self) -> None:
        """Save the epoch, before anything is appended in it. Raises OSError."""
        await asyncio.to_thread(self._file.save, self._epochs)

    def make_feed(self) -> EpochFeed:
        """Return the feed of a slave that has connected."""
        return EpochFeed(
            self._store, self.acks, lambda: self._file.epochs, self._settings.ha_transfer_batch_size
        )

    async def go_on(self, news: MasterNews) -> None:
        """Begin a later epoch at the log's end, with the same slaves. Raises OSError."""
        epochs = self._file.epochs.begin(news.epoch, self._store.written_offset)
        await asyncio.to_thread(self._file.save, epochs)
        in_sync = self.acks.in_sync
        members = news.in_sync | {in_sync.own_id}
        self.acks.begin(in_sync.next_epoch(epochs.entries[-1], members, news.set_epoch))
