"""What every store of claims must do."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fakeredis import FakeServer, FakeStrictRedis
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.idempotence import ClaimStore, MemoryClaims, RedisClaims, SqliteClaims
from cometmq.cluster.claims import ClaimState, Mark, claim

LEASE_MS = 10
KEEP_MS = 30

Stores = Callable[[], AbstractContextManager[list[ClaimStore]]]
Step = tuple[str, str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "finish", "release", "renew"]), st.sampled_from("ab"), st.integers(0, 15)
    ),
    max_size=30,
)
"""What is done, with which key, and after how many ms."""


@contextmanager
def memory() -> Iterator[list[ClaimStore]]:
    with closing(MemoryClaims()) as store:
        yield [store]


@contextmanager
def sqlite() -> Iterator[list[ClaimStore]]:
    """Give a file, opened twice as by two processes."""
    with TemporaryDirectory() as directory, ExitStack() as stack:
        yield [stack.enter_context(closing(SqliteClaims(Path(directory) / "claims.db"))) for _ in range(2)]


@contextmanager
def redis() -> Iterator[list[ClaimStore]]:
    """Give a server with two clients, as of two machines."""
    server = FakeServer()
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(FakeStrictRedis(server=server))) for _ in range(2)]
        yield [stack.enter_context(closing(RedisClaims(client))) for client in clients]


each_store = pytest.mark.parametrize("stores", [memory, sqlite, redis])


@each_store
@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
async def test_it_does_what_a_dict_would(stores: Stores, steps: list[Step]) -> None:
    now_ms = 0
    model: dict[str, Mark] = {}
    claims: dict[str, list[Mark]] = {
        "a": [Mark(ClaimState.IN_PROGRESS, 0)],
        "b": [Mark(ClaimState.IN_PROGRESS, 0)],
    }
    with stores() as opened:
        for number, (step, key, pause_ms) in enumerate(steps):
            store = opened[number % len(opened)]
            now_ms += pause_ms
            if step == "claim":
                expected = claim(model.get(key), now_ms, LEASE_MS)
                assert await store.claim(key, now_ms, LEASE_MS) == expected
                model[key] = expected.mark
                if expected.ours:
                    claims[key].append(expected.mark)
            elif step == "finish":
                model[key] = Mark(ClaimState.DONE, now_ms + KEEP_MS)
                await store.finish(key, now_ms + KEEP_MS)
            elif step == "renew":
                renewed = claims[key][pause_ms % len(claims[key])]
                is_there = model.get(key) == renewed
                if is_there:
                    model[key] = Mark(ClaimState.IN_PROGRESS, now_ms + LEASE_MS)
                    claims[key].append(model[key])
                assert await store.renew(key, renewed, now_ms + LEASE_MS) == is_there
            else:
                given_back = claims[key][pause_ms % len(claims[key])]
                if model.get(key) == given_back:
                    del model[key]
                await store.release(key, given_back)


@each_store
async def test_of_many_at_the_same_time_one_gets_a_key(stores: Stores) -> None:
    with stores() as opened:
        for key in map(str, range(20)):
            asked = [store.claim(key, 0, LEASE_MS) for store in opened * 4]
            ours = [claimed.ours for claimed in await asyncio.gather(*asked)]
            assert sorted(ours) == [False] * (len(ours) - 1) + [True]
