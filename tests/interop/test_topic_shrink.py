"""A topic loses queues while Java clients send to it and consume it."""

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.interop.jvm import Run
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer
from tests.interop.received import each_once

from cometmq.admin.shrink import ShrinkResult, Step, shrink
from cometmq.admin.topics import TopicAdmin
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import GetMaxOffsetHeader, OffsetResponseHeader, parse

pytestmark = pytest.mark.interop

COUNT = 3_000
BEFORE, AFTER = 8, 3
SENT_BEFORE = 10
TOPIC = "Shrinking"


def test_no_message_is_lost_when_queues_go_while_clients_work(broker: Peer, run_java: Run) -> None:
    run_java("CreateTopic", broker.namesrv, broker.broker, BEFORE, TOPIC)
    steps: dict[Step, None] = {}

    async def lower() -> ShrinkResult:
        async with TopicAdmin(broker.namesrv) as admin:
            await until_in_use(admin)
            return await shrink(
                admin,
                TOPIC,
                AFTER,
                settle_s=3,
                timeout_s=PATIENCE_S,
                on_progress=lambda progress: steps.setdefault(progress.step),
            )

    async def main() -> tuple[ShrinkResult, list[dict[str, Any]]]:
        java = asyncio.to_thread(run_java, "SendWhileConsuming", broker.namesrv, TOPIC, COUNT)
        shrunk, lines = await asyncio.gather(lower(), java)
        return shrunk, lines

    shrunk, (sent, received) = asyncio.run(main())
    print(f"\n{broker.name}: {sent}\n  {received}\n  {[step.value for step in steps]}")

    assert [queue.queue_id for queue in shrunk.retired] == list(range(AFTER, BEFORE))
    assert shrunk.groups == [f"consume-{TOPIC}"]
    assert sent["failed"] == []
    assert (sent["firstQueues"], sent["lastQueues"]) == (list(range(BEFORE)), list(range(AFTER)))
    assert received == each_once("push", COUNT)


async def until_in_use(admin: TopicAdmin) -> None:
    """Wait until there are messages in a queue that is to go."""
    (queues,) = (await admin.route(TOPIC)).queues
    address = (await admin.route(TOPIC)).master(queues.broker_name)
    assert address is not None
    ask = partial(admin.ask, address, RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(TOPIC, BEFORE - 1))
    async with asyncio.timeout(PATIENCE_S):
        while parse(OffsetResponseHeader, (await ask()).ext_fields).offset < SENT_BEFORE:
            continue
