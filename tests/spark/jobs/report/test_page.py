"""The page of a report, without Spark."""

import json
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.reports import FOUR_HOURS, HOUR, report, topic_report, volume, with_hot

from cometmq.spark.jobs.report.buckets import HOUR_MS
from cometmq.spark.jobs.report.charts import CHARTED_MAX, HOT_SHOWN_MAX
from cometmq.spark.jobs.report.hot import HotQueue
from cometmq.spark.jobs.report.lags import Lag
from cometmq.spark.jobs.report.page import HOT_QUEUES_MAX, name_of, names_of, page
from cometmq.spark.jobs.report.report import KeyCount, Report

VOID = {"br", "meta", "wbr"}
CELLS = {"h2", "p", "td", "th"}
REFERENCES = {"src", "href", "srcset", "action", "formaction", "data", "poster", "background", "cite"}


class Reader(HTMLParser):
    """Reads a page: what is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append((tag, dict(attrs)))
        if tag == "br":
            self.texts.append(" ")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in CELLS:
            self.texts.append(" ")

    def handle_data(self, data: str) -> None:
        within = self._open[-1] if self._open else ""
        {"script": self.scripts, "style": self.styles}.get(within, self.texts).append(data)

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.opened]

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    @property
    def charts(self) -> Any:
        """The JSON in the page, which is a script of its own."""
        (script,) = (script for script in self.scripts if script.startswith('{"buckets"'))
        return json.loads(script)


def timed(report: Report, first: int = HOUR, last: int = HOUR + 4 * HOUR_MS - 1) -> Report:
    return Report(report.stores, report.volumes, report.topics, report.lags, first, last, report.buckets)


def test_what_the_charts_show_is_in_the_page_as_json() -> None:
    volumes = [volume(hour=0, messages=5, p99=30), volume(hour=3, messages=7, p99=20)]
    read = Reader(page(timed(report(volumes, [topic_report()]))))
    series = {"messages": [5, 0, 0, 7], "bytes": [500, 0, 0, 700], "latency_ms": [30, None, None, 20]}
    assert read.charts == {
        "buckets": {"start": HOUR, "step_ms": HOUR_MS, "count": 4},
        "total": series,
        "topics": [series],
        "queues": [],
        "left_out": 0,
    }


def test_the_page_refers_to_nothing_outside_and_its_policy_forbids_to() -> None:
    read = Reader(page(timed(report([volume()], [topic_report()]))))
    assert {"link", "img", "iframe", "object", "embed", "base"}.isdisjoint(read.tags)
    assert [attributes for _, attributes in read.opened if REFERENCES.intersection(attributes)] == []
    assert not any(word in style for style in read.styles for word in ("url(", "@import", "http"))
    (policy,) = (
        attributes["content"] or ""
        for _, attributes in read.opened
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    run = [script for script in read.scripts if script.strip() and not script.startswith('{"buckets"')]
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in run]
    sources = " ".join(f"'sha256-{value}'" for value in hashes)
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src {sources}"
    assert len(run) == 2


def all_called(name: str) -> Report:
    """Return a report in which topic, key and group have the same name, and stand wherever they can."""
    hot = with_hot(topic_report(name, HotQueue("a/store", 0, 500, 1.0, 2)), KeyCount(name, 200))
    volumes = [volume(name, messages=500), volume(name, queue_id=1)]
    found = report(volumes, [hot, hot])
    return Report([name, name], volumes, found.topics, [Lag(name, name, name, 1)], HOUR, HOUR, FOUR_HOURS)


def check_that_nothing_is_made_of(name: str) -> None:
    read, plain = Reader(page(all_called(name), name)), Reader(page(all_called("plain"), "plain"))
    assert [tag for tag in read.tags if tag != "wbr"] == [tag for tag in plain.tags if tag != "wbr"]
    assert read.charts["queues"][0]["topic"] == name
    assert read.scripts[1:] == plain.scripts[1:] and len(read.scripts) == 3


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", "<!--<script>", "\"><b a='", "&lt;", "{{ 7 * 7 }}", "\u2028"],
)
def test_names_that_others_made_are_shown_and_not_obeyed(name: str) -> None:
    check_that_nothing_is_made_of(name)
    assert name in Reader(page(all_called(name), name)).text or name == "\u2028"  # which is a blank


@settings(deadline=None, max_examples=30)  # each reads two whole pages
@given(st.text(min_size=1))
def test_no_name_makes_anything_of_the_page(name: str) -> None:
    check_that_nothing_is_made_of(name)


def test_the_title_names_the_store() -> None:
    read = Reader(page(timed(report([volume()], [topic_report()]))))
    assert "a · store report" in read.text and "a/store" in read.text
    assert "Friday" in Reader(page(report([volume()], [topic_report()]), "Friday")).text


@pytest.mark.parametrize(
    ("stores", "names"),
    [
        (["broker-a/store", "broker-b/store"], ["broker-a", "broker-b"]),
        (["/x/a/store", "/y/a/store"], ["/x/a/store", "/y/a/store"]),
        (["s3://lake/broker-a/store"], ["broker-a"]),
        (["/x/cometmq-data/"], ["cometmq-data"]),
        (["/store"], ["/store"]),
    ],
)
def test_a_store_is_called_by_its_folder_unless_that_is_called_store(
    stores: list[str], names: list[str]
) -> None:
    assert names_of(stores) == names


def test_a_path_of_one_part_is_called_by_where_it_is() -> None:
    assert name_of("store") == name_of(".") != "store"


def test_of_many_stores_the_first_are_in_the_title_and_all_in_a_table() -> None:
    stores = [f"broker-{letter}/store" for letter in "abcde"]
    read = Reader(page(Report(stores, [volume()], [topic_report()])))
    assert "broker-a, broker-b, broker-c and 2 more · store report" in read.text
    assert all(store in read.text for store in stores)


def test_a_store_without_messages_has_a_page() -> None:
    read = Reader(page(Report(["a/store"], [], [])))
    assert "This store holds no messages." in read.text
    assert "figure" not in read.tags


def test_a_single_message_has_a_page() -> None:
    read = Reader(page(timed(report([volume(messages=1)], [topic_report()]), HOUR, HOUR)))
    assert "2 of 1 topic in 1 queue" in read.text and "rate" not in read.text


def test_what_counts_as_hot_is_said_where_nothing_is() -> None:
    read = Reader(page(report([volume()], [topic_report()])))
    assert "No key and no queue is." in read.text
    assert (
        "with 100 messages or more, if at least 1 % of its topic’s messages have it and 10 times" in read.text
    )
    assert "if it has 3 times as many as the other queues" in read.text


def test_hot_keys_and_queues_stand_with_their_topic_and_only_there() -> None:
    hot = with_hot(topic_report("orders", HotQueue("a/store", 2, 500, 11.4, 5)), KeyCount("k", 2))
    read = Reader(page(report([volume(queue_id=2), volume("even")], [hot, topic_report("even")])))
    hottest = read.text.partition("What is hot")[2].partition("A key is hot")[0]
    assert "Hot queue Messages Other queues have on average 2 500 4 11" in hottest
    assert "k 2 100.0 %" in hottest and "even" not in hottest
    assert [one["data-queues"] for _, one in read.opened if "data-queues" in one] == ["0"]


def test_of_very_many_hot_queues_the_fullest_are_listed() -> None:
    queues = [HotQueue("a/store", queue_id, 500, 1.0, 99) for queue_id in range(HOT_QUEUES_MAX + 7)]
    read = Reader(page(report([volume()], [topic_report("orders", *queues)])))
    assert "and 7 more" in read.text


def test_of_a_long_key_the_beginning_is_shown() -> None:
    hot = with_hot(topic_report(), KeyCount("k" * 200, 200))
    text = Reader(page(report([volume()], [hot]))).text
    assert "k" * 119 + "…" in text and "k" * 120 not in text


def test_of_very_many_hot_topics_the_largest_are_shown() -> None:
    names = [f"t{number}" for number in range(HOT_SHOWN_MAX + 3)]
    topics = [with_hot(topic_report(name), KeyCount("k", 200)) for name in names]
    read = Reader(page(report([volume(name) for name in names], topics)))
    assert "3 more topics have hot keys or queues" in read.text


def test_each_topic_has_a_sparkline_and_of_many_the_first_have_charts() -> None:
    names = [f"t{number}" for number in range(CHARTED_MAX + 2)]
    read = Reader(page(report([volume(name) for name in names], [topic_report(name) for name in names])))
    sparklines = [one for _, one in read.opened if one.get("class") == "spark"]
    assert [one["data-of"] for one in sparklines] == [str(place) for place in range(len(names))]
    charted = [one["data-of"] for _, one in read.opened if one.get("data-measure") == "bytes"]
    assert charted == ["total", *(str(place) for place in range(CHARTED_MAX))]
    assert "2 topics with fewer bytes have no charts of their own." in read.text


def test_a_single_topic_has_its_charts_once() -> None:
    read = Reader(page(report([volume()], [topic_report()])))
    assert [one["data-of"] for _, one in read.opened if "data-measure" in one] == ["total"] * 3
    assert "Messages per h" in read.text


def test_messages_that_no_chart_shows_are_counted() -> None:
    read = Reader(page(report([volume(), volume(hour=-5)], [topic_report()])))
    assert "2 messages have a store time before 2001 or after 2099" in read.text
