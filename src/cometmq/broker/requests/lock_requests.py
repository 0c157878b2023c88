"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: a lock is granted only once its owner is on the disk."""

import asyncio

from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.state.locks import QueueLocks
from cometmq.errors import StoreNotWritable
from cometmq.logs import get_logger
from cometmq.net.server import Session
from cometmq.wire.bodies import LockRequest, LockResponse, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields

_log = get_logger(__name__)


class LockRequests:
    """Locks and unlocks queues for clients of orderly groups; writes the locks in a thread."""

    def __init__(self, locks: QueueLocks, bodies: RequestBodies) -> None:
        self._locks = locks
        self._bodies = bodies
        self._waiting: list[tuple[Session, Command]] = []
        self._saving: asyncio.Task[None] | None = None
        self._stopping = False

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """LOCK_BATCH_MQ: lock queues for a client, or renew its locks."""
        if self._stopping:
            raise Refused(ResponseCode.SYSTEM_BUSY, "the broker is stopping: try again")
        body = self._bodies.decode(LockRequest, command)
        granted = self._locks.lock(body.consumer_group, body.client_id, body.queues, session.user)
        answer = response(command, body=encode(LockResponse(granted)))
        if command.is_oneway or not (self._locks.changed or self._saving):
            return answer
        self._waiting.append((session, answer))
        self._save_soon()
        return None

    def unlock(self, session: Session, command: Command, _header: NoFields) -> Command:
        """UNLOCK_BATCH_MQ: unlock queues of a client."""
        body = self._bodies.decode(LockRequest, command)
        self._locks.unlock(body.consumer_group, body.client_id, body.queues, session.user)
        self._save_soon()
        return response(command)

    async def stop(self) -> None:
        """Grant no more locks, and wait until all waiting requests are answered."""
        self._stopping = True
        if self._saving is not None:
            await self._saving

    def _save_soon(self) -> None:
        if self._saving is None and not self._stopping:
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        """Write changed locks, then answer the requests that came before; repeat while there are more."""
        answers: list[tuple[Session, Command]] = []
        try:
            while self._waiting or self._locks.changed:
                answers, self._waiting = self._waiting, []
                if (changes := self._locks.take_changed()) is not None:
                    await asyncio.to_thread(self._locks.write, changes)
                for session, answer in answers:
                    session.send(answer)
        except (OSError, StoreNotWritable) as error:
            _log.error("locks are granted that a restart of this broker would lose: %s", error)
            for session, answer in [*answers, *self._waiting]:
                session.send(answer)
            self._waiting.clear()
        finally:
            self._saving = None
