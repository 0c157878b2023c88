"""The construction of the parts that answer pops and what follows them."""

from cometmq.broker.basis import Basis
from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.handlers import Part
from cometmq.broker.requests.pop.acks import Acks
from cometmq.broker.requests.pop.checks import PopChecks
from cometmq.broker.requests.pop.disk_answers import DiskAnswers
from cometmq.broker.requests.pop.in_order import OrderedPops
from cometmq.broker.requests.pop.invisible_time import InvisibleTimes
from cometmq.broker.requests.pop.notification import Notifications
from cometmq.broker.requests.pop.peek import Peeks
from cometmq.broker.requests.pop.pop import Pops
from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.broker.requests.pop.sources import PopSources
from cometmq.broker.requests.pop.visits import Visits
from cometmq.broker.requests.pop.waiting import Waiting
from cometmq.broker.state.parts import StateParts
from cometmq.broker.state.pop.handles import Handles
from cometmq.broker.timed.revive_log import ReviveLog


class PopParts:
    """What answers pops.

    Attributes:
        waiting: those that are held.
        parts: all that have handlers.
    """

    def __init__(self, basis: Basis, state: StateParts, log: ReviveLog, disk_waits: DiskWaits) -> None:
        store, reads, settings, name = basis.store, basis.reads, basis.own.pop, basis.broker_name
        clock, in_flight, rates = basis.clock, state.in_flight, state.rates
        begins_young = settings.init_pop_offset_by_check_msg_in_mem
        offsets = PopOffsets(store, state.offsets, disk_waits, begins_young=begins_young)
        self.waiting = waiting = Waiting(store, state.topics, clock, settings)
        checks = PopChecks(state.subscriptions, basis.settings.store, name)
        self.sources = sources = PopSources(state.topics, settings)
        ordered = OrderedPops(state.orders, offsets, in_flight, waiting, clock)
        visits = Visits(store, sources, offsets, ordered, in_flight, log, settings, waiting.wake_all)
        answers = DiskAnswers(store, state.groups, disk_waits)
        handles = Handles(store, state.topics, settings)
        self.acks = Acks(log, ordered, handles, in_flight, answers, basis.bodies, rates)
        self.parts: tuple[Part, ...] = (
            self.acks,
            Pops(checks, ordered, visits, reads, waiting, answers, rates, clock),
            InvisibleTimes(log, ordered, handles, checks, answers, broker_name=name),
            Peeks(store, checks, sources, offsets, reads),
            Notifications(store, checks, sources, ordered, offsets, reads, waiting),
        )
