"""Answers to requests that have stored something: under SYNC_FLUSH they wait until the disk has it."""

from collections.abc import Sequence

from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.state.groups import Groups
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.frame import Command


class DiskAnswers:
    """Sends the answers of pops and acknowledgements, as RocketMQ does, whose check points are stored first.

    An answer is sent even if the disk is slower than ``syncFlushTimeout``.
    """

    def __init__(self, store: MessageStore, groups: Groups, disk_waits: DiskWaits) -> None:
        self._groups = groups
        self._disk_waits = disk_waits
        self._waits = store.settings.sync_flush

    def send(self, session: Session, command: Command, answer: Command | bytes) -> None:
        """Send an answer once all that is stored by now is on the disk, if that has to be waited for."""
        if command.is_oneway:
            return
        if self._waits:
            self._disk_waits.add(lambda _: session.send(answer), 0)
        else:
            session.send(answer)

    def send_popped(self, session: Session, command: Command, answer: bytes, group: str) -> None:
        """Send the answer to a pop, as ``send`` does, once its group is on the disk, or the disk refuses it.

        After a kill the messages would come again before their time: offsets of unknown groups are not
        restored.
        """
        self._groups.when_saved(group, lambda _: self.send(session, command, answer))

    def send_all(self, answers: Sequence[tuple[Session, bytes]]) -> None:
        """Send the frames of many answers, to each session its own, as ``send`` does with one."""
        if self._waits and answers:
            self._disk_waits.add(lambda _: _send(answers), 0)
        else:
            _send(answers)


def _send(answers: Sequence[tuple[Session, bytes]]) -> None:
    for session, frames in answers:
        session.send_at_once(frames)
