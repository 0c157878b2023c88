"""Answers about very many things."""

import asyncio
import threading
from pathlib import Path

from tests.broker.conftest import serving

from cometmq.broker.large_answers import TURN_MAX, encoded, made, page, with_body
from cometmq.format.layout import QUEUE_COUNT_MAX
from cometmq.store.reading import Run, run
from cometmq.wire.bodies import TopicConfig, TopicNames, TopicTable, decode, encode
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetAllTopicConfigHeader, TopicHeader


def test_little_is_written_at_once_and_much_apart_from_the_loop() -> None:
    names = TopicNames(["T"])
    here = Run(encoded(names, TURN_MAX))
    assert here.go_on() and here.answer == encode(names)
    apart = Run(encoded(names, TURN_MAX + 1))
    assert not apart.go_on()
    assert apart.go_on(apart.step.fetch()) and apart.answer == encode(names)
    assert run(encoded(names, TURN_MAX + 1)) == encode(names)


def test_a_page_is_a_range_of_the_sorted_names_and_without_a_size_all_of_them() -> None:
    entries = {"b": 2, "c": 3, "a": 1}
    assert page(entries, None, 2) == {"a": 1, "b": 2}
    assert page(entries, 2, 2) == {"c": 3}
    everything = page(entries, 1, None)
    assert everything == entries and everything is not entries


def test_what_is_made_is_made_once() -> None:
    calls: list[threading.Thread] = []

    def make() -> bytes:
        calls.append(threading.current_thread())
        return b"made"

    assert run(made(make, 10**6)) == b"made" and len(calls) == 1
    command = Command(RequestCode.GET_ALL_TOPIC_CONFIG, 7)
    answer = with_body(command, b"body", {"a": "b"})
    assert (answer.opaque, answer.body, answer.ext_fields) == (7, b"body", {"a": "b"})


async def test_long_answers_are_whole_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put_all(TopicConfig(topic=f"t{n}") for n in range(3 * TURN_MAX))
        bench.parts.topics.put(TopicConfig(topic="T", read_queue_count=QUEUE_COUNT_MAX))
        stats = bench.ask_later(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader("T"))
        assert (await bench.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader("T"))).code == 0
        assert not stats.done(), "another is served meanwhile"
        topics = await bench.ask(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigHeader())
        assert decode(TopicTable, topics.body).topics == bench.parts.topics.as_table().topics
        async with asyncio.timeout(60):
            answer = await asyncio.shield(stats)
        assert len(answer.body) > 1_000_000
