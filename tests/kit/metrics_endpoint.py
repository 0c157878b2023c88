"""An endpoint of metrics, and what is asked of it."""

import asyncio

from tests.broker.metrics.scraped import Answer, ask

from cometmq.metrics.endpoint import Endpoint, EndpointSource
from cometmq.metrics.family import Family, FamilyKind, Values
from cometmq.metrics.limits import LIMITS, EndpointLimits

SENT = Family("x_sent_total", FamilyKind.COUNTER, (), "messages", "messages sent")


class Scene:
    def __init__(self, limits: EndpointLimits = LIMITS) -> None:
        self.values = Values()
        self.values.set(SENT, 7)
        self.reasons: list[str] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.collecting = self.collected = 0
        self.endpoint = Endpoint(
            "127.0.0.1",
            0,
            EndpointSource(self.collect, lambda: self.reasons),
            labels={},
            series_max=10,
            limits=limits,
        )

    async def collect(self) -> Values:
        self.collecting += 1
        await self.gate.wait()
        self.collecting -= 1
        self.collected += 1
        if self.error is not None:
            raise self.error
        return self.values

    async def ask(self, path: str) -> Answer:
        return await ask(self.endpoint.address, path)
