"""Several processes share the tests: what ``make test`` needs of the tests and of ``conftest``."""

import pytest
from tests.conftest import SPARK, escaped


def test_a_report_with_lone_surrogates_can_be_handed_over() -> None:
    report = {"sections": [("log", "Or\udcffers")], "lines": ["\ud800", "é"], "duration": 0.5, "none": None}
    assert escaped(report) == {
        "sections": [("log", "Or\\udcffers")],
        "lines": ["\\ud800", "é"],
        "duration": 0.5,
        "none": None,
    }


def test_all_tests_that_need_spark_are_known_by_their_names(request: pytest.FixtureRequest) -> None:
    """Else a second process would start a Java and a Spark of its own, for them."""
    unnamed = [
        item.nodeid
        for item in request.session.items
        if "spark" in getattr(item, "fixturenames", ()) and SPARK not in item.nodeid
    ]
    assert unnamed == []
