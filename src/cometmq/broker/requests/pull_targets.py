"""The cache of checked pulls: which queue and filter a pull has, until topics, groups or consumers change.

``Subscriptions`` checks pulls. Its results are cached by the group, topic and filter in a pull, in a table
that the leaf operations search: see ``kernels.pulls.rows.QUEUE_NUMBER``.
"""

from dataclasses import dataclass, replace
from typing import Final

from cometmq.broker.refused import Refused
from cometmq.broker.state.offsets import key_of
from cometmq.broker.state.subscriptions import PullFilter, Subscriptions
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.pulls.rows import (
    IS_FILTERED,
    NO_NUMBER,
    QUEUE_NUMBER,
    Pull,
)
from cometmq.kernels.text.key_table import KeyTable
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import PullHeader, parse

TARGETS_MAX: Final = 100_000
"""Most targets that are cached."""


@dataclass(slots=True, eq=False)
class PullTarget:
    """A queue with the filter of pulls from it.

    Attributes:
        code: of the request.
        header: of the first such pull; its fields that differ from pull to pull are ignored.
        key: of group and topic among the offsets.
        queue: topic and id of the queue.
        pull_filter: the filter of messages.
        tags_codes: hashes of the accepted tags; None for any.
        is_rare: whether not only tags are compared, so that the leaf operations cannot answer.
    """

    code: int
    header: PullHeader
    key: str
    queue: tuple[str, int]
    pull_filter: PullFilter
    tags_codes: frozenset[int] | None
    is_rare: bool


UNCACHED: Final = PullTarget(
    0, PullHeader("", "", 0, 0, 0, 0, 0, 0), "", ("", 0), PullFilter(), None, is_rare=True
)
"""Stands for the target of a pull that is refused, or that is checked each time."""


def unchecked(command: Command) -> PullTarget:
    """Return the target of a pull that is checked again before it is read. Raises ProtocolError."""
    return replace(UNCACHED, code=command.code, header=parse(PullHeader, command.ext_fields))


class PullTargets:
    """Checks pulls, and caches their targets.

    Args:
        lite_pull: whether LITE_PULL_MESSAGE is answered.

    Attributes:
        by_number: the cached targets, ``UNCACHED`` for those that are checked each time.
        table: the numbers of cached targets; another one each time that they are dropped.
    """

    def __init__(self, subscriptions: Subscriptions, *, lite_pull: bool) -> None:
        self._subscriptions = subscriptions
        self._lite_pull = lite_pull
        subscriptions.when_changed(self.clear)
        self.clear()

    def clear(self, *_: object) -> None:
        """Drop all cached targets: topics, groups or consumers have changed."""
        self.table = KeyTable()
        self.by_number: list[PullTarget] = []

    def check(self, code: int, header: PullHeader) -> PullTarget:
        """Check a pull and return its target. Raises CometMQError if it must be refused."""
        if code == RequestCode.LITE_PULL_MESSAGE and not self._lite_pull:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                "LITE_PULL_MESSAGE is switched off here: set litePullMessageEnable, or send PULL_MESSAGE",
            )
        return self._check_target(code, header)

    def check_request(self, command: Command) -> PullTarget:
        """Check a pull and return its target. Raises CometMQError if it must be refused."""
        return self.check(command.code, parse(PullHeader, command.ext_fields))

    def check_again(self, target: PullTarget) -> PullTarget:
        """Return the present target of such pulls. Raises CometMQError if they must be refused now."""
        return self._check_target(target.code, target.header)

    def check_new(self, command: Command, pull: Pull, keys: Bytes) -> PullTarget:
        """Check a pull whose target is not cached, and cache it. Raises CometMQError if it must be refused.

        Args:
            pull: the row of the request.
            keys: the keys that the table did not have, ``uint8[n]``.
        """
        key = keys[pull.key_at : pull.key_end].tobytes()
        target = UNCACHED
        try:
            target = self.check_request(command)  # it may create a group, which clears the cache
        finally:
            self._add(key, UNCACHED if target.is_rare else target)
        return target

    def _add(self, key: bytes, target: PullTarget) -> None:
        if len(self.table) >= TARGETS_MAX:
            self.clear()
        if (number := self.table.put(key)) == len(self.by_number):
            self.by_number.append(target)
            row = self.table.rows[number]
            row[QUEUE_NUMBER], row[IS_FILTERED] = NO_NUMBER, target.tags_codes is not None

    def _check_target(self, code: int, header: PullHeader) -> PullTarget:
        pull_filter = self._subscriptions.check_pull(header)
        group, topic, tags_codes = header.consumer_group, header.topic, pull_filter.tags_codes
        is_by_tags = tags_codes is None or (isinstance(tags_codes, frozenset) and bool(tags_codes))
        return PullTarget(
            code,
            header,
            key_of(group, topic),
            (topic, header.queue_id),
            pull_filter,
            tags_codes if isinstance(tags_codes, frozenset) else None,
            not is_by_tags or pull_filter.record_filter is not None,
        )
