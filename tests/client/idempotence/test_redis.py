import sys
from contextlib import closing
from unittest.mock import patch

import pytest
import redis
from fakeredis import FakeStrictRedis

from cometmq.client.idempotence import RedisClaims
from cometmq.client.idempotence.redis import LINGER_MS
from cometmq.cluster.claims import ClaimState
from cometmq.errors import SettingsError
from cometmq.io.clock import ManualClock

NOWHERE = "redis://127.0.0.1:1/0"


async def test_redis_forgets_a_mark_some_time_after_it_has_expired() -> None:
    clock = ManualClock()
    now_ms = clock.now_ms()
    with (
        patch("time.time", lambda: clock.now_ms() / 1000),
        closing(FakeStrictRedis()) as client,
        closing(RedisClaims(client)) as store,
    ):

        def left_ms() -> int:
            ms = client.pttl("cometmq:claim:a")
            assert isinstance(ms, int)
            return ms

        claimed = await store.claim("a", 3_600_000)
        assert 3_600_000 < left_ms() <= 3_600_000 + LINGER_MS
        assert await store.renew("a", claimed.mark, 7_200_000)
        assert 7_200_000 < left_ms() <= 7_200_000 + LINGER_MS
        await store.finish("a", 86_400_000)
        assert 86_400_000 < left_ms() <= 86_400_000 + LINGER_MS
        assert client.get("cometmq:claim:a") == b"1 %d" % (now_ms + 86_400_000)


async def test_a_client_that_decodes_will_do_as_well() -> None:
    with (
        closing(FakeStrictRedis(decode_responses=True)) as client,
        closing(RedisClaims(client, prefix="mine:")) as store,
    ):
        first = await store.claim("a", 60_000)
        assert first.ours and client.keys() == ["mine:a"]
        again = await store.claim("a", 60_000)
        assert (again.ours, again.mark) == (False, first.mark)
        assert (first.mark.state, 0 < again.left_ms <= 60_000) == (ClaimState.IN_PROGRESS, True)
        await store.release("a", first.mark)
        assert client.keys() == []


async def test_a_server_that_is_not_there_is_told_when_it_is_asked() -> None:
    with closing(RedisClaims(NOWHERE)) as store, pytest.raises(redis.ConnectionError):
        await store.claim("a", 10)


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SettingsError, match=r"cometmq\[redis\]"):
        RedisClaims(NOWHERE)
