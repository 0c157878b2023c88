"""The construction of the parts that answer clients: sends, pulls, pops, and what goes with them."""

from cometmq.broker.basis import Basis
from cometmq.broker.handlers import Part
from cometmq.broker.name_servers.topic_routes import TopicRoutes
from cometmq.broker.requests.additions import additions_of
from cometmq.broker.requests.assignments import Assignments, LockRequests
from cometmq.broker.requests.client_requests import ClientRequests
from cometmq.broker.requests.message_queries import MessageQueries
from cometmq.broker.requests.pop.parts import PopParts
from cometmq.broker.requests.positions import Positions
from cometmq.broker.requests.pull import PullRequests
from cometmq.broker.requests.rare_sends import RareSends
from cometmq.broker.requests.recalls import Recalls
from cometmq.broker.requests.relay import MaySend, Relay
from cometmq.broker.requests.replies import ReplyRequests
from cometmq.broker.requests.retry import Retries
from cometmq.broker.requests.send import Sends
from cometmq.broker.requests.suggestions import ReplicaState, Suggestions
from cometmq.broker.requests.targets import Targets
from cometmq.broker.requests.transactions import Transactions
from cometmq.broker.safe_sends import SafeSends
from cometmq.broker.state.newer_subscriptions import NewerSubscriptions
from cometmq.broker.state.parts import StateParts
from cometmq.broker.timed.parts import TimedParts


class RequestParts:
    """What answers clients.

    Args:
        replicas: whom pulls may be told to read from, and whose acknowledgements sends wait for.
        may_send: as for ``Relay``.

    Attributes:
        queries, acks: take queries for messages and acknowledgements of popped ones.
        parts: all that have handlers.
    """

    def __init__(
        self, basis: Basis, state: StateParts, timed: TimedParts, replicas: ReplicaState, may_send: MaySend
    ) -> None:
        own, store, clock, reads, calls = basis.own, basis.store, basis.clock, basis.reads, basis.calls
        topics, groups, offsets, rates = state.topics, state.groups, state.offsets, state.rates
        producers, consumers, delays = state.producers, state.consumers, timed.delays
        bodies, host, permission = basis.bodies, basis.host, own.broker_permission
        constants = {"MSG_REGION": own.region_id, "TRACE_ON": str(own.trace_on).lower()}
        targets = Targets(topics, groups, state.locks, permission=permission)
        self.safe = safe = SafeSends(store, replicas.acks, own.replication)
        self.rare_sends = RareSends(
            targets,
            additions_of(own, host, clock),
            state.idempotence,
            delays,
            broker_name=basis.broker_name,
            rejects_transactions=own.transactions.reject_transaction_message,
            body_size_max=store.settings.max_message_size,
            store_host=host,
        )
        self.sends = Sends(
            store, targets, self.rare_sends, safe, rates, own.overload, own.flow, constants=constants
        )
        self.pulls = PullRequests(
            store,
            reads,
            state.subscriptions,
            offsets,
            rates,
            own.pulls,
            NewerSubscriptions(consumers, state.filters, calls, size_max=own.bodies.limits.list_bytes),
            Suggestions(groups, replicas, store.readings) if own.replication.slave_read_enable else None,
        )
        self.pop = pop = PopParts(basis, state, timed.revive.log, safe.disk)
        self.queries = MessageQueries(store, reads, rates)
        self.acks = pop.acks
        self.clients = ClientRequests(
            producers, consumers, state.filters, state.subscriptions, groups, topics, basis.peers_clock, own
        )
        routes = TopicRoutes(topics, own, clock)
        self.assignments = Assignments(
            topics, groups, consumers, state.modes, reads, routes, bodies, own.assignments
        )
        self.lock_requests = LockRequests(state.locks, bodies)
        self.replies = ReplyRequests(
            store,
            targets,
            producers,
            calls,
            rates,
            store_host=host,
            constants=constants,
            stores=own.store_reply_message_enable,
        )
        self.recalls = Recalls(store, topics, delays, safe.disk, rates, clock, own, store_host=host)
        name = basis.broker_name
        self.parts: tuple[Part, ...] = (
            self.pulls,
            *pop.parts,
            self.clients,
            self.assignments,
            self.lock_requests,
            self.replies,
            self.recalls,
            self.queries,
            Relay(consumers, store, reads, calls, bodies, broker_name=name, may_send=may_send),
            Positions(store, reads, topics, groups, offsets),
            Retries(store, reads, topics, groups, rates, delays, store_host=host, permission=permission),
            Transactions(store, reads, timed.ops, rates, delays, timed.transaction_check),
        )
