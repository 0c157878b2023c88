"""The page of a report, without Spark."""

from html.parser import HTMLParser

import pytest

from cometmq.spark.jobs.lags import Lag
from cometmq.spark.jobs.measures import HOUR_MS
from cometmq.spark.jobs.report import KeyCount, Report, Spread, TopicReport, Volume
from cometmq.spark.jobs.report_page import BARS_MAX, PLOTTED_MAX, Bar, Plot, by_queue, by_time, page, svg

SPREAD = Spread(1, 2, 3, 4)
HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS


def volume(topic: str, hour: int = HOUR, queue_id: int = 0) -> Volume:
    return Volume(
        store="a/store",
        topic=topic,
        queue_id=queue_id,
        hour=hour,
        messages=2,
        bytes=500,
        body_bytes=SPREAD,
        latency_ms=Spread(-7, 1, 2, 3),
    )


def topic_report(topic: str, *hot_keys: KeyCount) -> TopicReport:
    return TopicReport(
        topic=topic,
        messages=1_234,
        bytes=500,
        body_bytes=SPREAD,
        latency_ms=SPREAD,
        keys=5,
        duplicate_keys=len(hot_keys),
        repeated_ids=0,
        hot_keys=list(hot_keys),
    )


class Reader(HTMLParser):
    """Looks at whether all that opens is closed, and at what is opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  its own
        self.opened.append(tag)
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  its own
        self.opened.append(tag)


def test_a_page_is_whole_and_needs_nothing_else() -> None:
    topic = topic_report("orders", KeyCount("k1", 9), KeyCount("k2", 3))
    text = page(Report(["a/store"], [volume("orders"), volume("orders", HOUR + HOUR_MS, 1)], [topic]))
    opened = Reader(text).opened
    assert opened.count("figure") == 4
    assert {"script", "link", "img", "iframe"}.isdisjoint(opened)
    assert "http" not in text and "url(" not in text
    assert "<title>What is in a/store</title>" in text
    assert "2023-11-14 22:00 to 2023-11-15 00:00" in text
    assert "<td>1,234</td>" in text
    assert '<td>k2</td><td>3</td><td><svg width="200" height="12"><rect height="12" width="66.7"/>' in text


def test_names_that_others_made_are_shown_and_not_obeyed() -> None:
    bad = "<script>alert(1)</script>"
    text = page(Report([bad], [volume(bad)], [topic_report(bad, KeyCount(bad, 2))]))
    assert "script" not in Reader(text).opened
    assert text.count("&lt;script&gt;") >= 4


def test_stores_without_messages_and_very_many_topics_have_pages() -> None:
    assert "a, b: no messages" in page(Report(["a", "b"], [], []))
    many = [f"t{number}" for number in range(PLOTTED_MAX + 2)]
    text = page(Report(["a"], [volume(name) for name in many], [topic_report(name) for name in many]))
    assert "2 topics with fewer bytes have no plots" in text
    assert text.count("<h2>") == PLOTTED_MAX


def test_hours_stand_where_they_belong_and_share_bars_if_they_are_many() -> None:
    plot = by_time("messages", [(HOUR, 5), (HOUR + 3 * HOUR_MS, 1), (HOUR, 2)], sum)
    assert plot.title == "messages (an hour each)"
    assert plot.bars == [Bar(0, 7, "2023-11-14 22:00"), Bar(3, 1, "2023-11-15 01:00")]
    assert (plot.places, plot.first, plot.last) == (4, "2023-11-14 22:00", "2023-11-15 01:00")
    week = [(HOUR + hour * HOUR_MS, hour) for hour in range(BARS_MAX + 1)]
    plot = by_time("latency", week, max)
    assert plot.title == "latency (2 hours each)"
    assert [bar.value for bar in plot.bars[:2]] == [1, 3]
    assert plot.places == len(plot.bars) == 85


@pytest.mark.parametrize("hour", [0, 2**62 // HOUR_MS * HOUR_MS])
def test_a_broken_clock_breaks_no_plot(hour: int) -> None:
    plot = by_time("messages", [(HOUR, 5), (hour, 1)], sum)
    assert sum(bar.value for bar in plot.bars) == 6
    assert plot.places <= BARS_MAX


def test_of_very_many_queues_the_fullest_are_plotted() -> None:
    queues = {("a", number): number for number in range(BARS_MAX + 5)}
    plot = by_queue("messages by queue", queues)
    assert plot.title == f"messages by queue, the fullest {BARS_MAX} of {BARS_MAX + 5}"
    assert (plot.first, plot.last) == ("a queue 5", f"a queue {BARS_MAX + 4}")
    assert by_queue("q", {("a", 3): 1}).last == ""


def test_bars_are_as_high_as_their_values() -> None:
    drawn = svg(Plot("t", [Bar(0, 10, "ten"), Bar(1, 5, "five"), Bar(2, -4, "before")], 3, "first", "last"))
    Reader(drawn)
    assert [part.split('"')[0] for part in drawn.split(' height="')[2:]] == ["112.0", "56.0", "0.0"]
    assert "<title>five: 5</title>" in drawn


def test_lags_are_a_table_of_their_own() -> None:
    lag = Lag("a/store", "<shop>", "orders", 1_234)
    text = page(Report(["a/store"], [volume("orders")], [topic_report("orders")], [lag]))
    assert "<td>&lt;shop&gt;</td><td>orders</td><td>1,234</td><td>a/store</td>" in text
    assert Reader(text).opened.count("table") == 2
