"""What a consumer wants besides what was subscribed to, at a broker of whatever make."""

import asyncio
from pathlib import Path

import pytest
from tests.shop import shop_at

from cometmq.client import Model


@pytest.mark.parametrize("model", Model)
async def test_retries_are_for_groups_that_share(
    name_server: str, topic: str, model: Model, tmp_path: Path
) -> None:
    async with shop_at(name_server, topic) as here:
        settled = asyncio.Event()
        topics = {topic, f"%RETRY%{topic}"} if model is Model.CLUSTERING else {topic}

        def look(queues: object) -> None:
            assert isinstance(queues, list)
            if {queue.topic for queue in queues} == topics:
                settled.set()

        consumer = here.consumer(model=model, instance="me", offsets_directory=tmp_path, on_rebalance=look)
        consumer.subscribe(topic, print)
        async with consumer:
            await settled.wait()
