"""What every store of claims must do."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from fakeredis import FakeServer, FakeStrictRedis
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.idempotence import ClaimStore, MemoryClaims, RedisClaims, SqliteClaims
from cometmq.cluster.claims import ClaimState, Mark, claim
from cometmq.io.clock import ManualClock

LEASE_MS = 10
KEEP_MS = 30

Stores = Callable[[ManualClock], AbstractContextManager[list[ClaimStore]]]
Step = tuple[str, str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "finish", "release", "renew"]), st.sampled_from("ab"), st.integers(0, 15)
    ),
    max_size=30,
)
"""What is done, with which key, and after how many ms."""


@contextmanager
def memory(clock: ManualClock) -> Iterator[list[ClaimStore]]:
    with closing(MemoryClaims(clock=clock)) as store:
        yield [store]


@contextmanager
def sqlite(clock: ManualClock) -> Iterator[list[ClaimStore]]:
    """Provide a file, opened twice as by two processes."""
    with TemporaryDirectory() as directory, ExitStack() as stack:
        path = Path(directory) / "claims.db"
        yield [stack.enter_context(closing(SqliteClaims(path, clock=clock))) for _ in range(2)]


@contextmanager
def redis(clock: ManualClock) -> Iterator[list[ClaimStore]]:
    """Provide a server with two clients, as of two machines."""
    server = FakeServer()
    with patch("time.time", lambda: clock.now_ms() / 1000), ExitStack() as stack:
        clients = [stack.enter_context(closing(FakeStrictRedis(server=server))) for _ in range(2)]
        yield [stack.enter_context(closing(RedisClaims(client))) for client in clients]


each_store = pytest.mark.parametrize("stores", [memory, sqlite, redis])


@each_store
@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
async def test_it_does_what_a_dict_would(stores: Stores, steps: list[Step]) -> None:
    clock = ManualClock()
    model: dict[str, Mark] = {}
    claims: dict[str, list[Mark]] = {
        "a": [Mark(ClaimState.IN_PROGRESS, 0)],
        "b": [Mark(ClaimState.IN_PROGRESS, 0)],
    }
    with stores(clock) as opened:
        begin_ms = (await opened[0].claim("begin", LEASE_MS)).mark.until_ms - LEASE_MS - clock.monotonic_ms()
        for number, (step, key, pause_ms) in enumerate(steps):
            store = opened[number % len(opened)]
            clock.advance(pause_ms)
            now_ms = begin_ms + clock.monotonic_ms()
            if step == "claim":
                expected = claim(model.get(key), now_ms, LEASE_MS)
                assert await store.claim(key, LEASE_MS) == expected
                model[key] = expected.mark
                if expected.ours:
                    claims[key].append(expected.mark)
            elif step == "finish":
                model[key] = Mark(ClaimState.DONE, now_ms + KEEP_MS)
                await store.finish(key, KEEP_MS)
            elif step == "renew":
                mark = claims[key][pause_ms % len(claims[key])]
                renewed = None
                if model.get(key) == mark:  # though it may have expired
                    renewed = model[key] = Mark(ClaimState.IN_PROGRESS, now_ms + LEASE_MS)
                    claims[key].append(model[key])
                assert await store.renew(key, mark, LEASE_MS) == renewed
            else:
                given_back = claims[key][pause_ms % len(claims[key])]
                if model.get(key) == given_back:
                    del model[key]
                await store.release(key, given_back)


@each_store
async def test_of_many_at_the_same_time_one_gets_a_key(stores: Stores) -> None:
    with stores(ManualClock()) as opened:
        for key in map(str, range(20)):
            asked = [store.claim(key, LEASE_MS) for store in opened * 4]
            ours = [claimed.ours for claimed in await asyncio.gather(*asked)]
            assert sorted(ours) == [False] * (len(ours) - 1) + [True]


@pytest.mark.parametrize("stores", [memory, sqlite])
@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
async def test_a_wall_clock_that_is_set_neither_ends_nor_extends_anything(
    stores: Stores, step_ms: int
) -> None:
    clock = ManualClock()
    with stores(clock) as opened:
        mark = (await opened[0].claim("in progress", LEASE_MS)).mark
        await opened[0].finish("done", KEEP_MS)
        clock.set_wall(clock.now_ms() + step_ms)
        clock.advance(LEASE_MS - 1)
        for store in opened:
            assert await store.claim("in progress", LEASE_MS) == (False, mark, 1)
        clock.advance(1)
        assert (await opened[-1].claim("in progress", LEASE_MS)).ours
        clock.advance(KEEP_MS - LEASE_MS - 1)
        assert not (await opened[-1].claim("done", LEASE_MS)).ours
        clock.advance(1)
        assert (await opened[-1].claim("done", LEASE_MS)).ours
