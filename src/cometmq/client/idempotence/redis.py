"""Marks in Redis, which the processes of several machines may share.

A mark of :mod:`cometmq.cluster.claims` is the string ``STATE UNTIL_MS``, in decimal digits, under a prefixed
key. It is changed by scripts, which Redis runs atomically and by its own clock, so the clients' clocks do not
matter. Redis deletes a mark some time after it has expired. Its clock is its machine's wall clock: setting it
ahead by an hour ends leases early, setting it back makes those of dead processes last an hour longer, as with
all expiry in Redis. A mark is as durable as Redis: if that loses its last second (``appendfsync everysec``),
messages that were handled in it may be handled again.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cometmq.cluster.claims import Claimed, ClaimState, Mark
from cometmq.extras import require

if TYPE_CHECKING:  # an extra
    from redis import Redis

PREFIX: Final = "cometmq:claim:"
THREADS: Final = 8
"""How many requests may be in flight."""
LINGER_MS: Final = 60_000
"""How long an expired mark stays: its claim can be renewed until another process claims the key."""

_NOW: Final = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local mark = string.format('%d %.0f', ARGV[2], now_ms + ARGV[1])
"""
"""Computes the mark that begins now; the arguments are its duration in ms and its state."""
_CLAIM: Final = f"""{_NOW}
local found = redis.call('GET', KEYS[1])
local left_ms = found and tonumber(string.match(found, '%d+$')) - now_ms
if found and left_ms > 0 then
    return {{0, found, left_ms}}
end
redis.call('SET', KEYS[1], mark, 'PX', ARGV[1] + {LINGER_MS})
return {{1, mark, tonumber(ARGV[1])}}
"""
_FINISH: Final = f"""{_NOW}
redis.call('SET', KEYS[1], mark, 'PX', ARGV[1] + {LINGER_MS})
"""
_RENEW: Final = f"""{_NOW}
if redis.call('GET', KEYS[1]) ~= ARGV[3] then
    return false
end
redis.call('SET', KEYS[1], mark, 'PX', ARGV[1] + {LINGER_MS})
return mark
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
"""


class RedisClaims:
    """Keeps marks in Redis; its methods raise ``redis.RedisError`` when Redis does not respond.

    Args:
        redis: a URL such as ``redis://localhost:6379/0``, or a client of the package ``redis``, which
            ``close`` leaves open.
        prefix: of all keys.

    Raises:
        MissingExtra: a URL is given and the package ``redis`` is not installed.
        ValueError: the URL is not a Redis URL.
    """

    def __init__(self, redis: "Redis | str", *, prefix: str = PREFIX) -> None:
        self._is_own = isinstance(redis, str)
        self._redis: Redis = _connect(redis) if isinstance(redis, str) else redis
        self._prefix = prefix
        self._claim = self._redis.register_script(_CLAIM)
        self._finish = self._redis.register_script(_FINISH)
        self._renew = self._redis.register_script(_RENEW)
        self._release = self._redis.register_script(_RELEASE)
        self._threads = ThreadPoolExecutor(THREADS, "cometmq-claims")

    async def claim(self, key: str, lease_ms: int) -> Claimed:
        """Claim a key."""
        ours, text, left_ms = await self._run(self._claim, key, lease_ms, ClaimState.IN_PROGRESS.value)
        return Claimed(bool(ours), _mark(text), left_ms)

    async def finish(self, key: str, keep_ms: int) -> None:
        """Mark a key as done."""
        await self._run(self._finish, key, keep_ms, ClaimState.DONE.value)

    async def renew(self, key: str, mark: Mark, lease_ms: int) -> Mark | None:
        """Extend a claim, if its mark is still there; return its new mark."""
        text = await self._run(self._renew, key, lease_ms, mark.state.value, _text(mark))
        return None if text is None else _mark(text)

    async def release(self, key: str, mark: Mark) -> None:
        """Remove the mark of a claim, if it is still there."""
        await self._run(self._release, key, _text(mark))

    def close(self) -> None:
        """Wait for requests in flight, and close the connections."""
        self._threads.shutdown()
        if self._is_own:
            self._redis.close()

    async def _run(self, script: Any, key: str, *values: object) -> Any:
        work = partial(script, keys=[self._prefix + key], args=values)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _connect(url: str) -> "Redis":
    require("redis", "RedisClaims")
    from redis import Redis  # noqa: PLC0415 - needs the extra

    return Redis.from_url(url)


def _text(mark: Mark) -> str:
    return f"{mark.state:d} {mark.until_ms}"


def _mark(text: str | bytes) -> Mark:
    state, until_ms = map(int, text.split())
    return Mark(ClaimState(state), until_ms)
