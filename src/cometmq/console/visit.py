"""One request to the console: who sends it, what it asks for, and the page that answers it."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cometmq.admin.tolerant import Trouble
from cometmq.admin.topics import TopicAdmin
from cometmq.console.observing import Observations
from cometmq.console.rendering import url_of
from cometmq.console.settings import ConsoleSettings
from cometmq.console.visitors import Visitor, Visitors
from cometmq.console.workload import Workload
from cometmq.errors import SettingsError

NUMBER_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = len(str(NUMBER_MAX))


class Site(NamedTuple):
    """What all requests share."""

    settings: ConsoleSettings
    templates: Environment
    visitors: Visitors
    observations: Observations
    workload: Workload

    def page(
        self, template: str, *, status: int = 200, visitor: Visitor | None = None, **values: Any
    ) -> HTMLResponse:
        """Render a page for a visitor, None before it has signed in."""
        shared = {
            "settings": self.settings,
            "has_users": self.settings.login or self.observations.has_users,
            "visitor": visitor,
            "now_ms": int(time.time() * 1000),
            "troubles": (),
            "here": "",
        }
        return HTMLResponse(self.part(template, **(shared | values)), status)

    def part(self, template: str, **values: Any) -> str:
        """Render a part of a page."""
        return self.templates.get_template(template).render(values)


class Visit(NamedTuple):
    """One request of a visitor; ``form`` has the fields of a form that it sends."""

    site: Site
    request: Request
    visitor: Visitor
    form: Mapping[str, str]

    @property
    def cluster(self) -> TopicAdmin:
        """The visitor's connections to the cluster."""
        assert self.visitor.cluster is not None, "pages of a cluster are not served for a store directory"
        return self.visitor.cluster

    @property
    def store(self) -> Path:
        """The store directory."""
        assert self.site.settings.store is not None, "pages of a store are not served for a cluster"
        return self.site.settings.store

    def part(self, name: str) -> str:
        """Return a part of the address's path."""
        return str(self.request.path_params[name])

    def text(self, name: str, default: str = "") -> str:
        """Return a part of the query without spaces around it."""
        return self.request.query_params.get(name, default).strip()

    def number(self, name: str, default: int, *, least: int = 0, most: int = NUMBER_MAX) -> int:
        """Return a number of the query. Raises SettingsError, naming the limits."""
        return parse_number(name, self.text(name), default, least=least, most=most)

    def page(
        self, template: str, *, status: int = 200, troubles: Sequence[Trouble] = (), **values: Any
    ) -> Response:
        """Render a page."""
        return self.site.page(template, status=status, visitor=self.visitor, troubles=troubles, **values)

    def go_to(self, path: str, **query: str) -> Response:
        """Lead the browser to a page, so that it does not send a form twice."""
        return RedirectResponse(url_of(path, query), 303)


def parse_number(name: str, text: str, default: int, *, least: int = 0, most: int = NUMBER_MAX) -> int:
    """Parse a number; without a text it is the default. Raises SettingsError, naming the limits."""
    if not text:
        return default
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    if not is_number or not least <= int(text) <= most:
        raise SettingsError(f"{name} {text[:30]!r}: write a whole number from {least} to {most}")
    return int(text)
