"""What a consumer wants besides what was subscribed to; what it does is in ``test_consumer``."""

import asyncio
from pathlib import Path

import pytest
from tests.shop import shop

from cometmq.client import Model


@pytest.mark.parametrize(
    ("model", "topics"), [(Model.CLUSTERING, {"Orders", "%RETRY%readers"}), (Model.BROADCASTING, {"Orders"})]
)
def test_retries_are_for_groups_that_share(tmp_path: Path, model: Model, topics: set[str]) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            settled = asyncio.Event()

            def look(queues: object) -> None:
                assert isinstance(queues, list)
                if {queue.topic for queue in queues} == topics:
                    settled.set()

            consumer = here.consumer(
                model=model, instance="me", offsets_directory=tmp_path, on_rebalance=look
            )
            consumer.subscribe("Orders", print)
            async with consumer:
                await settled.wait()

    asyncio.run(main())
