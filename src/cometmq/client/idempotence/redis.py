"""Marks in Redis, which the processes of several machines may share.

Each key is a string below a prefix, ``STATE UNTIL_MS`` in decimal digits, as :mod:`cometmq.cluster.claims`
has them. What looks at a mark and then changes it is a script, which Redis runs as one step. Redis removes a
mark some time after it has expired, by its own clock; until when it counts is told by the clock of who asks,
so the machines' clocks must agree, to much less than a lease. A mark lives as long as Redis keeps what it is
told: one that loses its last second (``appendfsync everysec``) may let what was handled in it come again.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cometmq.cluster.claims import Claimed, ClaimState, Mark
from cometmq.extras import require
from cometmq.io.clock import Clock, SystemClock

if TYPE_CHECKING:  # an extra
    from redis import Redis

PREFIX: Final = "cometmq:claim:"
THREADS: Final = 8
"""So many requests may be under way at a time."""
LINGER_MS: Final = 60_000
"""So long an expired mark stays: clocks need not agree with that of Redis."""

_CLAIM: Final = """
local found = redis.call('GET', KEYS[1])
if found and tonumber(ARGV[1]) < tonumber(string.match(found, '%d+$')) then
    return found
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false
"""
_RENEW: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
"""


class RedisClaims:
    """Keeps marks in Redis; its methods raise ``redis.RedisError`` when that cannot be asked.

    Args:
        redis: a URL such as ``redis://localhost:6379/0``, or a client of the package ``redis``, which is not
            closed with this.
        prefix: what the names of all keys begin with.

    Raises:
        MissingExtra: a URL is given, and the package ``redis`` is not there.
        ValueError: the URL is none of Redis.
    """

    def __init__(self, redis: "Redis | str", *, prefix: str = PREFIX, clock: Clock | None = None) -> None:
        self._is_own = isinstance(redis, str)
        self._redis: Redis = _connect(redis) if isinstance(redis, str) else redis
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._claim = self._redis.register_script(_CLAIM)
        self._renew = self._redis.register_script(_RENEW)
        self._release = self._redis.register_script(_RELEASE)
        self._threads = ThreadPoolExecutor(THREADS, "cometmq-claims")

    async def claim(self, key: str, now_ms: int, lease_ms: int) -> Claimed:
        """Claim a key."""
        mark = Mark(ClaimState.IN_PROGRESS, now_ms + lease_ms)
        values = [now_ms, _text(mark), lease_ms + LINGER_MS]
        found = await self._run(self._claim, keys=[self._prefix + key], args=values)
        return Claimed(True, mark) if found is None else Claimed(False, _mark(found))

    async def finish(self, key: str, until_ms: int) -> None:
        """Mark a key as done."""
        text = _text(Mark(ClaimState.DONE, until_ms))
        await self._run(self._redis.set, self._prefix + key, text, px=self._kept_ms(until_ms))

    async def renew(self, key: str, mark: Mark, until_ms: int) -> bool:
        """Let a claim last longer, if its mark is still there."""
        values = [_text(mark), _text(mark._replace(until_ms=until_ms)), self._kept_ms(until_ms)]
        return bool(await self._run(self._renew, keys=[self._prefix + key], args=values))

    async def release(self, key: str, mark: Mark) -> None:
        """Take the mark of a claim away, if it is still there."""
        await self._run(self._release, keys=[self._prefix + key], args=[_text(mark)])

    def close(self) -> None:
        """Wait for what is under way, and close the connections."""
        self._threads.shutdown()
        if self._is_own:
            self._redis.close()

    async def _run(self, call: Any, *values: object, **options: object) -> Any:
        work = partial(call, *values, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _kept_ms(self, until_ms: int) -> int:
        """Give how long Redis is to keep a mark."""
        return max(until_ms - self._clock.now_ms(), 0) + LINGER_MS


def _connect(url: str) -> "Redis":
    require("redis", "RedisClaims")
    from redis import Redis  # noqa: PLC0415 - needs the extra

    return Redis.from_url(url)


def _text(mark: Mark) -> str:
    return f"{mark.state:d} {mark.until_ms}"


def _mark(text: str | bytes) -> Mark:
    state, until_ms = map(int, text.split())
    return Mark(ClaimState(state), until_ms)
