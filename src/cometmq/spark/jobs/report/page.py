"""Build a report as one HTML page without external files: it contains uPlot, the library for its charts.

``page.html`` is a Jinja template that escapes each text: names of topics and keys come from producers. The
charts' numbers are JSON in the page (``charts``), drawn by ``page.js``. The page's own policy forbids the
browser to load any file, and to run any other script.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from cometmq import __version__
from cometmq.extras import require

require("spark", "the page of a report", "jinja2")

# ruff: noqa: E402  Jinja comes with the extra

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from cometmq.spark.files.remote import path_of
from cometmq.spark.jobs.report.charts import CHARTED_MAX, HOT_SHOWN_MAX, charts, hot_topics
from cometmq.spark.jobs.report.hot import HOT_MIN, KEY_SHARE, KEY_TIMES, QUEUE_TIMES
from cometmq.spark.jobs.report.report import Report
from cometmq.spark.jobs.report.summary import tiles, totals
from cometmq.spark.jobs.report.texts import breakable, size_text, span_text

HOT_QUEUES_MAX: Final = 10
"""Hot queues listed for a topic, the fullest."""
NAMED_MAX: Final = 3
"""Stores in the title."""
FOLDER: Final = "store"
"""RocketMQ's folder name of any store, so it does not identify one."""

TEMPLATE: Final = "page.html"
STYLES: Final = ("vendored/uplot/uPlot.min.css", "spark/jobs/report/page.css")
SCRIPTS: Final = ("vendored/uplot/uPlot.iife.min.js", "spark/jobs/report/page.js")


def page(report: Report, title: str | None = None) -> str:
    """Build the page, to be encoded as UTF-8.

    Args:
        title: by default the names of the stores, see ``name_of``.
    """
    hot = hot_topics(report)
    drawn = charts(report)
    return _template().render(
        title=title or ", ".join(names_of(report.stores)[:NAMED_MAX]) + _more(len(report.stores)),
        report=report,
        tiles=tiles(report, drawn.total.messages) if report.topics else [],
        totals=totals(report) if len(report.stores) > 1 else [],
        hot=hot,
        hot_shown=hot[:HOT_SHOWN_MAX],
        charted=report.topics[:CHARTED_MAX] if len(report.topics) > 1 else [],
        charts=msgspec.to_builtins(drawn),
        step=span_text(report.buckets.step_ms).removeprefix("1 "),
    )


def names_of(stores: Sequence[str]) -> list[str]:
    """Return a name for each store: that of its folder; the paths if those names are not unique."""
    names = [name_of(store) for store in stores]
    return names if len(set(names)) == len(names) else list(stores)


def name_of(store: str) -> str:
    """Return the last part of a store's path that names it: ``broker-a`` of ``broker-a/store``."""
    parts = [part for part in path_of(store).absolute().parts if part.strip("/") and part != FOLDER]
    return parts[-1] if parts else store


def _more(stores: int) -> str:
    left = stores - NAMED_MAX
    return f" and {left:,} more" if left > 0 else ""


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("cometmq.spark.jobs", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"name": breakable, "number": "{:,}".format, "size": size_text}
    environment.globals |= _parts()
    return environment.get_template(TEMPLATE)


def _parts() -> Mapping[str, object]:
    """Return the parts that are the same in each page."""
    root = files("cometmq")
    styles = [root.joinpath(path).read_text("utf-8") for path in STYLES]
    scripts = [root.joinpath(path).read_text("utf-8") for path in SCRIPTS]
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    return {
        "styles": [Markup(style) for style in styles],  # noqa: S704  the package's own
        "scripts": [Markup(script) for script in scripts],  # noqa: S704  as above
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src {_sources(hashes)}",
        "version": __version__,
        "hot_min": HOT_MIN,
        "hot_queues_max": HOT_QUEUES_MAX,
        "key_percent": 100 // KEY_SHARE,
        "key_times": KEY_TIMES,
        "queue_times": QUEUE_TIMES,
    }


def _sources(hashes: Sequence[str]) -> str:
    return " ".join(f"'sha256-{value}'" for value in hashes)
