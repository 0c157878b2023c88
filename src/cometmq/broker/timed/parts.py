"""The construction of what delivers messages when they are due: delayed, timed, popped and half ones."""

from cometmq.broker.basis import Basis
from cometmq.broker.state.parts import StateParts
from cometmq.broker.timed.delays import Delays
from cometmq.broker.timed.op_queue import OpQueue
from cometmq.broker.timed.revive import Revive
from cometmq.broker.timed.revive_log import ReviveLog
from cometmq.broker.timed.schedule import Schedule
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.broker.timed.transaction_check import MayAsk, TransactionCheck, rules_of
from cometmq.format.pop.names import revive_topic
from cometmq.io.open_files import OpenFiles
from cometmq.store.timer.timer import Timer


class TimedParts:
    """What is due at a time.

    Args:
        may_ask: as for ``TransactionCheck``.

    Raises StoreDamaged: the table of delayed messages holds content of another type.
    """

    def __init__(self, basis: Basis, state: StateParts, may_ask: MayAsk) -> None:
        store, clock, half = basis.store, basis.clock, basis.own.transactions
        topics, groups, offsets, host = state.topics, state.groups, state.offsets, basis.host
        self.delays = delays = Delays(store.settings, clock)
        self.schedule = Schedule(store, basis.table("delayOffset"))
        self.schedule.load()
        topic = revive_topic(basis.own.identity.broker_cluster_name)
        log = ReviveLog(store, delays, clock, topic, host, basis.broker_name)
        timer = Timer(OpenFiles(basis.files, writable=True), store.root, store.settings)
        self.timed_messages = timed = TimedMessages(store, timer, clock, log.settled)
        self.revive = Revive(store, timed, topics, groups, offsets, state.in_flight, log, basis.own.pop)
        self.ops = OpQueue(store, offsets, clock, store_host=host, size_max=half.transaction_op_msg_max_size)
        self.transaction_check = TransactionCheck(
            store,
            topics,
            state.producers,
            self.ops,
            rules_of(half, basis.settings.store.file_reserved_time),
            broker_name=basis.broker_name,
            may_ask=may_ask,
        )
