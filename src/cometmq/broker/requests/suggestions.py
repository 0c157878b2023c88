"""Which broker of its name a pull is told to read from next: the master, or a slave.

A master tells readers that are far behind to read from a slave, so that old messages are not loaded into its
own memory. A slave tells readers that are not far behind to read from the master again, and does so at once
when it has nothing for them, instead of holding their pull. Both only with ``slaveReadEnable``.

*Far behind* is a message that lies further before the end of the log than ``accessMessageInMemoryMaxRatio``
of the machine's memory. Which broker such readers are sent to, their group says
(``whichBrokerWhenConsumeSlowly``, 1), as it does for all others (``brokerId``, 0).

RocketMQ's master suggests slaves that may not exist, and its slave sends readers to a master that may be
gone; here a master does so while a slave is connected, and a slave while it is connected to its master.
(RocketMQ: PullMessageProcessor.java, composeResponseHeader.)
"""

from typing import Final, Protocol

from cometmq.broker.requests.pull_rows import FOUND, PullRow
from cometmq.broker.state.groups import Groups
from cometmq.cluster.route import MASTER
from cometmq.format.record import PHYSICAL_OFFSET_AT
from cometmq.replication.acks import AcksOfSlaves
from cometmq.store.read.bulk_reads import Answered
from cometmq.store.read.readings import Readings
from cometmq.wire.bodies import GroupConfig
from cometmq.wire.frame import HEADER_LENGTH_MASK

_PREFIX_SIZE: Final = 8
_LONG_SIZE: Final = 8


class ReplicaState(Protocol):
    """What is known of the other brokers of this one's name."""

    @property
    def is_slave(self) -> bool:
        """Whether this broker follows a master."""
        ...

    @property
    def is_looking(self) -> bool:
        """Whether a slave is not connected to its master."""
        ...

    @property
    def acks(self) -> AcksOfSlaves:
        """What the connected slaves of a master have acknowledged."""
        ...


class Suggestions:
    """Suggests brokers to pulls.

    Attributes:
        are_made: whether another broker than the master may be suggested; as of the last ``compare``.
    """

    def __init__(self, groups: Groups, replicas: ReplicaState, readings: Readings) -> None:
        self.are_made = False
        self._groups = groups
        self._replicas = replicas
        self._readings = readings
        replicas.acks.on_change.append(self.compare)
        self.compare()

    def compare(self) -> None:
        """Look whether there are other brokers; called when a slave comes or goes, and every second."""
        self.are_made = self._replicas.is_slave or bool(self._replicas.acks.by_slave)

    def broker_id(self, group: str, *, is_far_behind: bool) -> int:
        """Return which broker a group is told to read from next."""
        if not self.are_made or self.sends_back(is_far_behind=is_far_behind):
            return MASTER
        config = self._groups.find(group) or GroupConfig(group)
        return config.slow_broker_id if is_far_behind else config.broker_id

    def sends_back(self, *, is_far_behind: bool) -> bool:
        """Return whether this is a slave that sends a reader to its master, which is there."""
        return self._replicas.is_slave and not is_far_behind and not self._replicas.is_looking

    def put_into(self, answer: bytes, pull: PullRow, one: Answered) -> bytes:
        """Return the answer to a pull that has found messages with the broker to read from next.

        How far behind its reader is, the first of the messages says: one answer further than the last one.
        """
        header_size = int.from_bytes(answer[4:_PREFIX_SIZE], "big") & HEADER_LENGTH_MASK
        records = answer[_PREFIX_SIZE + header_size :]
        at = PHYSICAL_OFFSET_AT
        is_far_behind = self._readings.is_far_behind(int.from_bytes(records[at : at + _LONG_SIZE], "big"))
        suggested = self.broker_id(pull.target.header.consumer_group, is_far_behind=is_far_behind)
        if suggested == MASTER:
            return answer
        where = suggested, one.next_offset, one.min_offset, one.max_offset
        return FOUND.encode(pull.command, where, len(records)) + records
