"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: a lock is given only when the disk knows who has it."""

import asyncio
import logging

from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.state.locks import QueueLocks
from cometmq.errors import StoreNotWritable
from cometmq.net.server import Session
from cometmq.wire.bodies import LockRequest, LockResponse, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields

_log = logging.getLogger(__name__)


class LockRequests:
    """Answers what clients of orderly groups ask; writes in a thread."""

    def __init__(self, locks: QueueLocks, bodies: RequestBodies) -> None:
        self._locks = locks
        self._bodies = bodies
        self._waiting: list[tuple[Session, Command]] = []
        self._saving: asyncio.Task[None] | None = None
        self._stopping = False

    def handlers(self) -> Handlers:
        """Return what answers which request."""
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """LOCK_BATCH_MQ: a client takes queues, or keeps them for longer."""
        if self._stopping:
            raise Refused(ResponseCode.SYSTEM_BUSY, "the broker is stopping: try again")
        wanted = self._bodies.decode(LockRequest, command)
        granted = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.queues)
        answer = response(command, body=encode(LockResponse(granted)))
        if command.is_oneway or not (self._locks.changed or self._saving):
            return answer
        self._waiting.append((session, answer))
        self._save_soon()
        return None

    def unlock(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """UNLOCK_BATCH_MQ: it gives them back."""
        released = self._bodies.decode(LockRequest, command)
        self._locks.unlock(released.consumer_group, released.client_id, released.queues)
        self._save_soon()
        return response(command)

    async def stop(self) -> None:
        """Give no more locks; answer those who wait."""
        self._stopping = True
        if self._saving is not None:
            await self._saving

    def _save_soon(self) -> None:
        if self._saving is None and not self._stopping:
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        """Write what changed, and answer those who asked before; again if more came meanwhile."""
        answers: list[tuple[Session, Command]] = []
        try:
            while self._waiting or self._locks.changed:
                answers, self._waiting = self._waiting, []
                if (changes := self._locks.take_changed()) is not None:
                    await asyncio.to_thread(self._locks.write, changes)
                for session, answer in answers:
                    session.send(answer)
        except (OSError, StoreNotWritable) as error:
            _log.error("locks are given although a restart of this broker would forget them: %s", error)
            for session, answer in [*answers, *self._waiting]:
                session.send(answer)
            self._waiting.clear()
        finally:
            self._saving = None
