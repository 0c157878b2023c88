"""What a broker answers over HTTP, and the values in it."""

import asyncio
from http.client import HTTPConnection
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

OF_ALL_SERIES = {"cluster", "node_type", "node_id"}
TIMEOUT_S = 60


class Answer(NamedTuple):
    status: int
    type: str
    text: str


class Scrape:
    """The families of one scrape, by the names of their series."""

    def __init__(self, text: str) -> None:
        self.families: list[Metric] = list(text_string_to_metric_families(text))
        self._samples = [sample for family in self.families for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        return [
            sample.value
            for sample in self._samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        (value,) = self.values(name, **labels)
        return value


async def ask(address: str, path: str) -> Answer:
    return await asyncio.to_thread(ask_blocking, address, path)


async def scrape(address: str, path: str = "/metrics") -> Scrape:
    answer = await ask(address, path)
    assert answer.status == 200, answer
    return Scrape(answer.text)


def ask_blocking(address: str, path: str) -> Answer:
    connection = HTTPConnection(address, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(response.status, response.getheader("Content-Type") or "", response.read().decode())
    finally:
        connection.close()
