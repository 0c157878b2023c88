"""The construction of the parts that answer requests, folder by folder."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from cometmq.access.directory import Directory
from cometmq.broker.admin import live_settings
from cometmq.broker.admin.live_settings import LiveSettings
from cometmq.broker.admin.parts import AdminHooks, AdminParts
from cometmq.broker.admin.statistics import SAMPLE_MS
from cometmq.broker.auth.guarding import guard_of, may_be_asked
from cometmq.broker.auth.opening import open_users
from cometmq.broker.auth.plain_acl import FOLLOW_MS
from cometmq.broker.auth.requests import NoAccessRequests
from cometmq.broker.auth.stored_records import StoredRecords, may_be_sent
from cometmq.broker.basis import Basis
from cometmq.broker.client_calls import ClientCalls
from cometmq.broker.door import Door
from cometmq.broker.handlers import Requests, merged
from cometmq.broker.name_servers.own_address import exposure
from cometmq.broker.reads import Reads
from cometmq.broker.replication import Replication
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.requests.parts import RequestParts
from cometmq.broker.settings import Settings
from cometmq.broker.slave_requests import of_slave
from cometmq.broker.state.parts import StateParts
from cometmq.broker.timed.parts import TimedParts
from cometmq.broker.timed.transaction_check import rules_of
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.kernels.frames.fields import FrameKind
from cometmq.replication.controller.membership import SetMembership
from cometmq.store.store import MessageStore


class Assembly:
    """One broker's parts over its open store.

    Args:
        address: the IP address and the port for clients.
        peers_clock: measures the silence of peers and the age of their locks; by default the same clock.
        membership: the broker's place in its set; None without a controller.
        directory: the directory of users to fill; None for one of its own.

    Attributes:
        guard: checks requests before these parts see them; None without authentication.
        rounds: the parts' work in the background, by name: its interval, ms, and the coroutine function.

    Raises:
        StoreDamaged: a table of the broker holds content of another type.
    """

    def __init__(
        self,
        settings: Settings,
        store: MessageStore,
        files: FileLayer,
        clock: Clock,
        address: tuple[str, int],
        peers_clock: Clock | None = None,
        membership: SetMembership | None = None,
        directory: Directory | None = None,
    ) -> None:
        own, self._store = settings.broker, store
        self.reads, self.calls, bodies = Reads(store), ClientCalls(), RequestBodies(own.bodies.limits)
        peers_clock = peers_clock or clock
        basis = Basis(settings, store, files, clock, peers_clock, address, self.reads, self.calls, bodies)
        is_signed = own.auth.authentication_enabled
        self.users = users = open_users(own.auth, files, store.root, directory) if is_signed else None
        self.guard = guard = None if users is None else guard_of(users.directory, own, peers_clock)
        state, replication = StateParts(basis), Replication(store, own, membership, users)
        timed = TimedParts(basis, state, partial(may_be_asked, guard))
        requests = RequestParts(basis, state, timed, replication, partial(may_be_sent, guard))
        pulls, waiting, self._requests = requests.pulls, requests.pop.waiting, requests
        self._live = LiveSettings(settings, basis.table(live_settings.TABLE), clock, self._apply)
        warnings = partial(_warnings, exposure(own), replication)
        hooks = AdminHooks(pulls.offsets_reset, waiting.wake_all, warnings)
        admin = AdminParts(basis, state, timed.timed_messages, self._live, membership, hooks)
        access = NoAccessRequests() if users is None else users.requests(self.reads, bodies)
        handlers = merged((*requests.parts, *admin.parts, timed.schedule, replication, access))
        if own.replication.is_slave:
            handlers = of_slave(
                handlers,
                answers_pulls=own.replication.slave_read_enable,
                may_be_read=lambda: replication.may_be_read,
            )
        if guard is not None:
            handlers = StoredRecords(store, self.reads, guard).checked(handlers)
        closed = pulls.closed, waiting.closed, self.reads.closed, requests.clients.closed, self.calls.closed
        self.requests = Requests(requests.sends.handle, handlers, self.calls.answered, closed)
        self.rounds: dict[str, tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = {
            "statistics": (SAMPLE_MS, admin.statistics.sample),
        }
        if not own.replication.is_slave:
            interval_ms = own.transactions.transaction_check_interval
            self.rounds["transactions"] = interval_ms, timed.transaction_check.round
        if users is not None and users.plain_acl is not None:
            self.rounds["plain_acl.yml"] = FOLLOW_MS, users.plain_acl.round
        self.topics, self.groups, self.offsets = state.topics, state.groups, state.offsets
        self.filters, self.orders, self.modes = state.filters, state.orders, state.modes
        self.producers, self.consumers, self.locks = state.producers, state.consumers, state.locks
        self.rates, self.in_flight, self.idempotence = state.rates, state.in_flight, state.idempotence
        self.schedule, self.timed_messages, self.revive = timed.schedule, timed.timed_messages, timed.revive
        self.ops, self.transaction_check, self.replication = timed.ops, timed.transaction_check, replication
        self.bulk = Door(
            {
                FrameKind.SEND: requests.sends,
                FrameKind.PULL: requests.pulls,
                FrameKind.ACK: requests.acks,
                FrameKind.QUERY: requests.queries,
            }
        )
        self.sends, self.safe = requests.sends, requests.safe
        self.pulls, self.waiting, self.sources = pulls, waiting, requests.pop.sources
        self.clients, self.assignments = requests.clients, requests.assignments
        self.lock_requests = requests.lock_requests
        self.statistics, self.beginnings = admin.statistics, admin.beginnings

    def _apply(self, settings: Settings) -> None:
        """Pass changed settings, of ``live_settings.CHANGEABLE``, to the parts that use them."""
        own, requests = settings.broker, self._requests
        self.topics.follow(own)
        self.groups.auto_create = own.topics.auto_create_subscription_group
        self.pulls.short_polling_ms = own.pulls.short_polling_ms
        self.clients.notify_enabled = own.notify_consumer_ids_changed_enable
        requests.rare_sends.rejects_transactions = own.transactions.reject_transaction_message
        requests.replies.stores = own.store_reply_message_enable
        requests.recalls.settings = own
        self.transaction_check.rules = rules_of(own.transactions, settings.store.file_reserved_time)
        self._store.retention.configure(settings.store)
        self._store.readings.configure(settings.store)

    async def stop_saving(self) -> None:
        """Save all changes of topics, groups, their modes and settings, and stop retries."""
        await self._live.settled()
        await self.topics.stop()
        await self.groups.stop()
        await self.modes.stop()
        if self.users is not None:
            await self.users.tables.stop()


def _warnings(insecure: str, replication: Replication) -> dict[str, str]:
    """Return what is insecure about the broker, and why it does not replicate, as far as there is any."""
    found = {"insecure": insecure, "replicationProblems": "; ".join(replication.problems())}
    return {name: text for name, text in found.items() if text}
