"""The sync state set of a master: which slaves must have a record before it is confirmed. Time is given.

The set is the controller's, which elects masters from it alone. The master asks for changes, one at a time:

* a slave comes in whose log reaches the confirm offset, the start of the epoch, and all that was sent to it;
* a slave goes out that is not connected, or was not level with the master for ``SLOW_MS``.

Under a load that never stops a slave is always a little behind, and RocketMQ's stays out until there is a
pause. Here a slave that is near is *awaited*: nothing more is confirmed before it comes in, which takes as
long as what it lacks is on its way.

While an answer is out, old and new members count together: a member that the controller may still elect, or
may elect already, has all that is confirmed. So it is also after a request without an answer, which may have
been carried out, or may still be: that ends with a later set, or when the set is the same ``LATE_MS`` later.

Source: RocketMQ ``store/ha/autoswitch/AutoSwitchHAService.java``, ``AutoSwitchHAConnection.java``.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from cometmq.replication.epochs import EpochEntry

SLOW_MS: Final = 15_000
"""Longest time that a member may be behind (RocketMQ: ``haMaxTimeSlaveNotCatchup``)."""
LATE_MS: Final = 15_000
"""A request that is not carried out by then never is: controllers answer, or lose it, within seconds."""
NEAR_BYTES: Final = 256 * 1024
"""How far behind a slave may be to be awaited."""
AWAIT_MS: Final = 1_000
"""For how long one is; then it is not proposed for a while."""
REFUSED_MS: Final = 5_000
"""How long a slave is not proposed again that the controller refused."""


class Proposal(NamedTuple):
    """A sync state set that the controller is asked for, in place of its version ``set_epoch``."""

    members: frozenset[int]
    set_epoch: int


@dataclass(eq=False)
class Follower:
    """One connected slave.

    Attributes:
        broker_id: its id, by its own word.
        is_learner: whether it never counts as in sync.
        ack: the end of its log; None until it has reported one.
        sent_end: the end of the master's log when something was sent to it last, at ``sent_ms``.
        level_ms: when it was last level with the master.
    """

    broker_id: int
    is_learner: bool
    level_ms: int
    ack: int | None = None
    sent_end: int = 0
    sent_ms: int = 0


class InSyncSet:
    """The sync state set of one epoch of a master.

    Args:
        own_id: the master's id.
        entry: its epoch.
        members: the controller's set, which has the master.
        set_epoch: its version.
        all_ack: whether a record is confirmed when all members have it (``allAckInSyncStateSet``); otherwise
            at once.

    Attributes:
        own_id: the master's id.
        entry: its epoch.
        members: the set as the controller said last.
        set_epoch: its version.
    """

    def __init__(
        self, own_id: int, entry: EpochEntry, members: frozenset[int], set_epoch: int, *, all_ack: bool
    ) -> None:
        self.members = members
        self.set_epoch = set_epoch
        self.own_id = own_id
        self.entry = entry
        self._all_ack = all_ack
        self._followers: dict[int, Follower] = {}
        self._unanswered: frozenset[int] = frozenset()  # members of requests that may have been carried out
        self._unanswered_ms = 0  # when the last of them was given up
        self._asked: frozenset[int] | None = None  # … of the request whose answer is out
        self._awaited: Follower | None = None  # a slave that is to come in …
        self._awaited_ms = 0  # … since when
        self._refused_ms: dict[int, int] = {}  # when the controller refused a slave
        self._confirmed = 0

    @property
    def acks(self) -> dict[int, int | None]:
        """The end of the log of each connected slave, by id; None until it has reported one."""
        return {broker_id: follower.ack for broker_id, follower in self._followers.items()}

    @property
    def counted(self) -> frozenset[int]:
        """The ids that must have a record: of the set, of those that were asked for, and who is awaited."""
        awaited = frozenset() if self._awaited is None else frozenset({self._awaited.broker_id})
        return self.members | self._unanswered | (self._asked or frozenset()) | awaited

    def next_epoch(self, entry: EpochEntry, members: frozenset[int], set_epoch: int) -> "InSyncSet":
        """Return the set of a later epoch of the same master, whose slaves stay connected."""
        later = InSyncSet(self.own_id, entry, members, set_epoch, all_ack=self._all_ack)
        later._followers, later._confirmed = self._followers, self._confirmed
        return later

    def connect(self, broker_id: int, now_ms: int, *, is_learner: bool = False) -> Follower:
        """Add a slave that has connected; it replaces an older connection of the same id."""
        follower = Follower(broker_id, is_learner, now_ms)
        self._followers[broker_id] = follower
        self._refused_ms.pop(broker_id, None)
        return follower

    def disconnect(self, follower: Follower, now_ms: int) -> Proposal | None:
        """Remove a slave whose connection is lost; return the set to ask for, if it was a member."""
        if self._followers.get(follower.broker_id) is follower:
            del self._followers[follower.broker_id]
        if self._awaited is follower:
            self._awaited = None
        return self.check(now_ms)

    def sent(self, follower: Follower, log_end: int, now_ms: int) -> None:
        """Record that something was sent to a slave, when the master's log ended at ``log_end``."""
        follower.sent_end, follower.sent_ms = log_end, now_ms

    def acked(self, follower: Follower, offset: int, log_end: int, now_ms: int) -> Proposal | None:
        """Record the end of a slave's log; return the set to ask for, if the slave belongs in it now."""
        follower.ack = offset
        if offset >= log_end:
            follower.level_ms = max(follower.level_ms, now_ms)
        elif offset >= follower.sent_end:
            follower.level_ms = max(follower.level_ms, follower.sent_ms)
        self.confirm_offset(log_end)
        if follower.broker_id in self.members or not self._may_come_in(follower, now_ms):
            return None
        if offset >= self._needed_by(follower):
            return self._propose(self.members | {follower.broker_id})
        if self._awaited is None and self._asked is None and log_end - offset <= NEAR_BYTES:
            self._awaited, self._awaited_ms = follower, now_ms
        return None

    def check(self, now_ms: int) -> Proposal | None:
        """Return the set to ask for, without members that are gone or slow; None if all may stay."""
        if self._awaited is not None and now_ms - self._awaited_ms > AWAIT_MS:
            self._refused_ms[self._awaited.broker_id], self._awaited = now_ms, None
        return self._propose(
            frozenset(
                member for member in self.members if member == self.own_id or self._keeps_up(member, now_ms)
            )
        )

    def settle(self, members: frozenset[int], set_epoch: int, now_ms: int) -> None:
        """Replace the set by what the controller says, unless that is older.

        A later set answers all requests before it; the same set those that are too late to be carried out.
        """
        if set_epoch > self.set_epoch:
            self.members, self.set_epoch = members, set_epoch
            self._unanswered, self._asked = frozenset(), None
        elif set_epoch == self.set_epoch and now_ms - self._unanswered_ms > LATE_MS:
            self._unanswered = frozenset()

    def refused(self, now_ms: int) -> None:
        """Handle that the controller has refused the last request for its members: it is not carried out.

        For some time none of them is proposed again: it may be unknown to the controller, or dead for it.
        """
        self._refused_ms |= dict.fromkeys((self._asked or frozenset()) - self.members, now_ms)
        self._asked = None

    def unanswered(self, now_ms: int) -> None:
        """Handle that the last request has no answer: it may have been carried out, or may still be."""
        self._unanswered |= self._asked or frozenset()
        self._unanswered_ms, self._asked = now_ms, None

    def confirm_offset(self, log_end: int) -> int:
        """Return the offset before which all counted members have the log; it never goes back."""
        others = self.counted - {self.own_id} if self._all_ack else ()
        followers = [self._followers.get(member) for member in others]
        acks = [follower.ack for follower in followers if follower is not None and follower.ack is not None]
        if len(acks) == len(followers):
            self._confirmed = max(self._confirmed, min([log_end, *acks]))
        return self._confirmed

    def _may_come_in(self, follower: Follower, now_ms: int) -> bool:
        was_refused = now_ms < self._refused_ms.get(follower.broker_id, -REFUSED_MS) + REFUSED_MS
        return not (follower.is_learner or was_refused)

    def _needed_by(self, follower: Follower) -> int:
        """Return the offset that a slave's log must reach to come in."""
        needed = max(self._confirmed, self.entry.start_offset)
        return needed if follower is self._awaited else max(needed, follower.sent_end)

    def _keeps_up(self, member: int, now_ms: int) -> bool:
        follower = self._followers.get(member)
        return follower is not None and now_ms - follower.level_ms <= SLOW_MS

    def _propose(self, members: frozenset[int]) -> Proposal | None:
        if self._asked is not None or members == self.members:
            return None
        self._asked, self._awaited = members, None
        return Proposal(members, self.set_epoch)
