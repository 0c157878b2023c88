"""What pulls may be given, judged once and remembered until something changes that it depends on.

``Subscriptions`` alone judges. Its verdicts are remembered by what a pull says of group, topic and filter, in
a table that the leaf operations search: see ``kernels.pulls.pull_table``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cometmq.broker.refused import Refused
from cometmq.broker.state.offsets import key_of
from cometmq.broker.state.subscriptions import PullFilter, Subscriptions
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.pulls.pull_table import PullTable
from cometmq.kernels.pulls.rows import (
    HASH,
    IS_FILTERED,
    NO_NUMBER,
    QUEUE_NUMBER,
    TARGET_SIZE,
    UNKNOWN_AT,
    UNKNOWN_END,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import decode
from cometmq.wire.headers import PullHeader, parse

TARGETS_MAX: Final = 100_000
"""So much is remembered."""

_TARGETS_ROOM: Final = 64


@dataclass(slots=True, eq=False)
class PullTarget:
    """A queue, and what somebody may be given of it.

    Attributes:
        code: of the request.
        header: of a pull that was judged so; what may differ from pull to pull in it says nothing.
        key: of group and topic among the offsets.
        queue: topic and id of the queue.
        wanted: what may be given.
        tags_codes: hashes of the wanted tags; None for any.
        is_rare: whether something else than tags decides, so that leaf operations cannot answer.
    """

    code: int
    header: PullHeader
    key: str
    queue: tuple[str, int]
    wanted: PullFilter
    tags_codes: frozenset[int] | None
    is_rare: bool


NOBODY: Final = PullTarget(
    0, PullHeader("", "", 0, 0, 0, 0, 0, 0), "", ("", 0), PullFilter(), None, is_rare=True
)
"""The target of pulls that are refused, and in place of those that are judged each time."""


class PullTargets:
    """Judges pulls, and remembers the verdicts.

    Args:
        lite_pull: whether LITE_PULL_MESSAGE is answered.

    Attributes:
        by_number: what is known, ``NOBODY`` for what is judged each time.
        table: the numbers of those that are known.
        known: int64, a row for each number: see ``kernels.pulls.rows.QUEUE_NUMBER`` and the other.
    """

    known: Longs

    def __init__(self, subscriptions: Subscriptions, *, lite_pull: bool) -> None:
        self._subscriptions = subscriptions
        self._lite_pull = lite_pull
        self.table = PullTable()
        subscriptions.when_changed(self.forget)
        self.forget()

    def forget(self, *_: object) -> None:
        """Forget all verdicts: something has changed that they depend on."""
        self.table.clear()
        self.by_number: list[PullTarget] = []
        self.known = np.empty((_TARGETS_ROOM, TARGET_SIZE), np.int64)

    def judge(self, code: int, header: PullHeader) -> PullTarget:
        """Judge a pull. Raises CometMQError if it must be refused."""
        if code == RequestCode.LITE_PULL_MESSAGE and not self._lite_pull:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                "LITE_PULL_MESSAGE is switched off here: set litePullMessageEnable, or send PULL_MESSAGE",
            )
        return self._judged(code, header)

    def judge_frame(self, frame: bytes) -> PullTarget:
        """Judge the pull of a frame. Raises CometMQError if it must be refused."""
        command = decode(frame)
        return self.judge(command.code, parse(PullHeader, command.ext_fields))

    def judge_anew(self, target: PullTarget) -> PullTarget:
        """Judge again. Raises CometMQError if pulls must be refused now."""
        return self._judged(target.code, target.header)

    def learn(self, frame: bytes, row: list[int], keys: Bytes) -> PullTarget:
        """Judge a pull whose target is not known, and remember the verdict. Raises CometMQError.

        Args:
            row: as ``PullOps.read`` makes it.
            keys: the keys that the table did not have.
        """
        key = keys[row[UNKNOWN_AT] : row[UNKNOWN_END]]
        target = NOBODY
        try:
            target = self.judge_frame(frame)  # which may change something
        finally:
            self._remember(key, row[HASH], NOBODY if target.is_rare else target)
        return target

    def _remember(self, key: Bytes, key_hash: int, target: PullTarget) -> None:
        if self.table.count >= TARGETS_MAX:
            self.forget()
        if (number := self.table.put(key, key_hash)) == len(self.by_number):
            self.by_number.append(target)
            if number == len(self.known):
                self.known = np.concatenate((self.known, np.empty_like(self.known)))
            self.known[number, QUEUE_NUMBER] = NO_NUMBER
            self.known[number, IS_FILTERED] = target.tags_codes is not None

    def _judged(self, code: int, header: PullHeader) -> PullTarget:
        wanted = self._subscriptions.wanted(header)
        group, topic, tags_codes = header.consumer_group, header.topic, wanted.tags_codes
        is_by_tags = tags_codes is None or (isinstance(tags_codes, frozenset) and bool(tags_codes))
        return PullTarget(
            code,
            header,
            key_of(group, topic),
            (topic, header.queue_id),
            wanted,
            tags_codes if isinstance(tags_codes, frozenset) else None,
            not is_by_tags or wanted.record_filter is not None,
        )
