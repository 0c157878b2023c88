"""Which frames go to whom: reads of sends, of pulls, of queries, of several and of others."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.broker.desk import ROOT, USUAL, desk, json_frame
from tests.kernels.acking import ack_frame
from tests.kernels.querying import by_id, by_key
from tests.kit.pull_frames import heartbeat, pull, send

from cometmq import kernels
from cometmq.broker.requests import bulk
from cometmq.broker.requests.bulk import RARE_READS, TRIED_READS, Bulk
from cometmq.net.turn import Read
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, encode

OTHER = encode(Command(RequestCode.GET_BROKER_RUNTIME_INFO, 4))
POP = encode(Command(RequestCode.POP_MESSAGE, 5))
ACK = encode(Command(RequestCode.ACK_MESSAGE, 6))


class Seen:
    """Sees how often one of the bulk paths is asked."""

    def __init__(self, bulk: Any) -> None:
        self.calls = 0
        self._bulk = bulk

    def take(self, reads: Sequence[Read], *more: Any) -> Any:
        self.calls += 1
        return self._bulk.take(reads, *more)


@pytest.mark.parametrize(
    ("frames", "of_sends", "of_pulls", "of_queries", "of_acks"),
    [
        ([send(), send()], 1, 0, 0, 0),
        ([pull(1), pull(2)], 0, 1, 0, 0),
        ([by_id(0), by_key()], 0, 0, 1, 0),
        ([OTHER], 1, 1, 1, 0),
        ([ack_frame(), ack_frame()], 0, 0, 0, 1),
        ([ACK, POP], 0, 0, 0, 1),
        ([POP, ack_frame(), POP], 0, 0, 0, 1),
        ([POP, send(), send(), ACK], 1, 0, 0, 1),
        ([send(), ack_frame(), send()], 2, 0, 0, 1),
        ([pull(1), ACK], 0, 1, 0, 1),
        ([send(), pull(1), pull(2)], 1, 1, 0, 0),
        ([pull(1), send(), send()], 1, 1, 0, 0),
        ([by_id(0), by_key(), send(), send(), by_key()], 1, 1, 2, 0),
    ],
)
async def test_each_kernel_looks_at_what_may_be_its_own(
    frames: list[bytes], of_sends: int, of_pulls: int, of_queries: int, of_acks: int
) -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        made.read(heartbeat("cg") + send() + pull(9))
        parts = made.parts.bulk
        sends, pulls, queries = Seen(parts._sends), Seen(parts._pulls), Seen(parts._queries)
        acks = Seen(parts._acks)
        made.server.bulk = Bulk(cast(Any, sends), cast(Any, pulls), cast(Any, queries), cast(Any, acks))
        made.read(b"".join(frames))
        calls = sends.calls, pulls.calls, queries.calls, acks.calls
        assert calls == (of_sends, of_pulls, of_queries, of_acks)


@pytest.mark.parametrize(("frames", "of_pulls"), [([send(), send()], 0), ([OTHER, pull(1)], 2)])
async def test_frames_of_sends_that_no_kernel_takes_are_not_searched_for_pulls(
    frames: list[bytes], of_pulls: int
) -> None:
    with desk(ROOT, bulk=False, files=MemoryDisk(), enable_consume_queue_ext=True) as made:
        made.read(heartbeat("cg") + send() + pull(9))
        parts = made.parts.bulk
        pulls = Seen(parts._pulls)
        made.server.bulk = Bulk(parts._sends, cast(Any, pulls), parts._queries, parts._acks)
        made.read(b"".join(frames))
        assert pulls.calls == of_pulls


async def test_a_connection_that_sends_rare_ones_only_is_seldom_looked_at_in_bulk() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        made.read(send())
        sends = Seen(made.parts.bulk._sends)
        parts = made.parts.bulk
        made.server.bulk = Bulk(cast(Any, sends), parts._pulls, parts._queries, parts._acks)
        rare = json_frame(USUAL | {"i": "DELAY\x011\x02"})
        for _ in range(2 * TRIED_READS):
            made.read(rare)
        assert sends.calls == RARE_READS + 1
        assert made.session.rare_reads == 2 * TRIED_READS
        usual, rates = send(), made.parts.rates
        made.read(usual)  # it is tried
        assert made.session.rare_reads == 0
        before = sum(rates.send_rows.values())
        made.read(usual)
        assert sum(rates.send_rows.values()) == before + 1


async def test_a_connection_whose_sends_are_rare_as_their_queues_are_new_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels.load()
    monkeypatch.setattr(bulk, "RARE_READS", 2)
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        rates = made.parts.rates
        rare = rates.rare_sends
        for queue_id in range(4):
            made.read(json_frame(USUAL | {"b": "New", "e": str(queue_id)}))
        assert rates.rare_sends == rare + 4
        before = sum(rates.send_rows.values())
        made.read(json_frame(USUAL | {"b": "New"}))
        assert sum(rates.send_rows.values()) == before + 1
