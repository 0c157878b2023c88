import logging
import math

import pytest

from cometmq.metrics.exposition import Exposition, selected
from cometmq.metrics.family import Family, FamilyKind, HistogramValue, Values

SENT = Family("x_sent_total", FamilyKind.COUNTER, ("topic",), "messages", "messages sent")
AGE = Family("x_age_milliseconds", FamilyKind.GAUGE, ("topic",), "ms", "age", is_latest=True)
TOOK = Family("x_took_milliseconds", FamilyKind.HISTOGRAM, (), "ms", "time")


def text_of(values: Values, *, series_max: int = 10, names: tuple[str, ...] = ()) -> list[str]:
    exposition = Exposition(lambda: values, labels={"node_id": "b"}, series_max=series_max)
    text = exposition.text()
    lines = (selected(text, names) if names else text).decode().splitlines()
    return [line for line in lines if not line.partition(" ")[2].startswith(("HELP process", "TYPE process"))]


def test_a_counter_keeps_its_name_and_each_series_has_the_labels_of_all() -> None:
    values = Values()
    values.set(SENT, 3, "T")
    lines = text_of(values, names=("x_sent_total",))
    assert lines == [
        "# HELP x_sent_total messages sent",
        "# TYPE x_sent_total counter",
        'x_sent_total{node_id="b",topic="T"} 3.0',
    ]


def test_what_never_comes_is_infinite_as_prometheus_writes_it() -> None:
    values = Values()
    values.set(AGE, math.inf, "T")
    assert text_of(values, names=(AGE.name,))[-1] == 'x_age_milliseconds{node_id="b",topic="T"} +Inf'


def test_a_topic_of_any_name_is_one_label() -> None:
    values = Values()
    values.set(SENT, 1, 'a"b\\c\n')
    assert (
        text_of(values, names=("x_sent_total",))[-1] == 'x_sent_total{node_id="b",topic="a\\"b\\\\c\\n"} 1.0'
    )


def test_buckets_of_a_histogram_add_up() -> None:
    values = Values()
    values.buckets[TOOK] = HistogramValue((1.0, 5.0), (4, 2, 1), 23)
    lines = text_of(values)
    assert [line for line in lines if line.startswith("x_took")] == [
        'x_took_milliseconds_bucket{node_id="b",le="1.0"} 4.0',
        'x_took_milliseconds_bucket{node_id="b",le="5.0"} 6.0',
        'x_took_milliseconds_bucket{node_id="b",le="+Inf"} 7.0',
        'x_took_milliseconds_count{node_id="b"} 7.0',
        'x_took_milliseconds_sum{node_id="b"} 23.0',
    ]


def test_series_above_the_limit_are_one_and_a_warning_names_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    values = Values()
    for number in range(5):
        values.set(SENT, number + 1, f"T{number}")
        values.set(AGE, number + 1, f"T{number}")
    with caplog.at_level(logging.WARNING):
        lines = text_of(values, series_max=3)
    assert [line for line in lines if line.startswith(("x_", "cometmq_"))] == [
        'x_sent_total{node_id="b",topic="T0"} 1.0',
        'x_sent_total{node_id="b",topic="T1"} 2.0',
        'x_sent_total{node_id="b",otel_metric_overflow="true"} 12.0',
        'x_age_milliseconds{node_id="b",topic="T0"} 1.0',
        'x_age_milliseconds{node_id="b",topic="T1"} 2.0',
        'x_age_milliseconds{node_id="b",otel_metric_overflow="true"} 5.0',
        'cometmq_metrics_folded_series{node_id="b",metric="x_sent_total"} 3.0',
        'cometmq_metrics_folded_series{node_id="b",metric="x_age_milliseconds"} 3.0',
    ]
    assert "x_sent_total has 5 series, and metricsOtelCardinalityLimit = 3" in caplog.text


def test_as_many_series_as_the_limit_are_all_there() -> None:
    values = Values()
    for number in range(3):
        values.set(SENT, 1, f"T{number}")
    assert not any("overflow" in line or "folded" in line for line in text_of(values, series_max=3))


def test_names_choose_samples_and_families_without_any_are_left_out() -> None:
    values = Values()
    values.set(SENT, 3, "T")
    values.buckets[TOOK] = HistogramValue((1.0,), (4, 2), 23)
    lines = text_of(values, names=("x_took_milliseconds_sum",))
    assert lines == [
        "# HELP x_took_milliseconds time",
        "# TYPE x_took_milliseconds histogram",
        'x_took_milliseconds_sum{node_id="b"} 23.0',
    ]
