"""The console's web application: which address leads to which page, and what errors look like."""

from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeAlias

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from cometmq import errors
from cometmq.admin.cluster import NOT_FOUND, missing_topic
from cometmq.console import signing_in
from cometmq.console.guarding import Guarding, check_form, read_form
from cometmq.console.pages import (
    dead_letters,
    groups,
    messages,
    overview,
    replication,
    sending,
    tail,
    topics,
    users,
    waiting,
)
from cometmq.console.signing_in import COOKIE
from cometmq.console.visit import Site, Visit
from cometmq.console.visitors import Visitor
from cometmq.console.workload import Busy
from cometmq.wire.codes import ResponseCode

Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]

PAGES: Final[dict[str, Handler]] = {
    "/": overview.overview,
    "/topics": topics.topics,
    "/topics/{topic}": topics.topic,
    "/groups": groups.groups,
    "/groups/{group}": groups.group,
    "/groups/{group}/reset": groups.plan_reset,
    "/messages": messages.browse,
    "/messages/{id}": messages.message,
    "/dead-letters": dead_letters.dead_letters,
    "/dead-letters/{group}": dead_letters.letters,
    "/waiting": waiting.waiting,
    "/producers": waiting.producers,
    "/replication": replication.replication,
    "/send": sending.form,
    "/tail": tail.tail,
    "/users": users.users,
    "/users/{user}": users.user,
}
"""The pages of a cluster."""

DATA: Final[dict[str, Handler]] = {
    "/groups/{group}/lags": groups.lags,
    "/tail/events": tail.events,
}
"""What scripts of these pages ask for."""

ACTIONS: Final[dict[str, Handler]] = {
    "/groups/{group}/reset": groups.reset,
    "/dead-letters/{group}/resend": dead_letters.resend,
    "/messages/{id}/send-again": messages.send_again,
    "/messages/{id}/handle": messages.handle,
    "/send": sending.send,
    "/users": users.add,
    "/users/{user}": users.change,
    "/users/{user}/remove": users.remove,
    "/users/{user}/entries": users.add_entry,
    "/users/{user}/entries/remove": users.remove_entry,
}
"""What forms of these pages do: a console that is read-only refuses it."""

_PACKAGE: Final = Path(str(files("cometmq")))
STATIC: Final = {
    "/static/console": _PACKAGE / "console" / "static",
    "/static/htmx": _PACKAGE / "vendored" / "htmx",
    "/static/uplot": _PACKAGE / "vendored" / "uplot",
}


def application(site: Site) -> Starlette:
    """Build the application of a site."""
    pages, actions = (PAGES | DATA, ACTIONS) if site.settings.store is None else store_pages()
    changes = site.settings.store is None
    routes: list[BaseRoute] = [Route(path, partial(_show, site, page)) for path, page in pages.items()]
    routes += [
        Route(path, partial(_act, site, action, changes=changes), methods=["POST"])
        for path, action in actions.items()
    ]
    if site.settings.login:
        routes += [
            Route("/sign-in", partial(signing_in.show, site)),
            Route("/sign-in", partial(signing_in.sign_in, site), methods=["POST"]),
            Route("/sign-out", partial(_act, site, signing_in.sign_out, changes=False), methods=["POST"]),
        ]
    routes += [Mount(path, StaticFiles(directory=folder)) for path, folder in STATIC.items()]
    routes.append(Route("/healthz", _healthy))
    guard = Middleware(Guarding, hosts=site.settings.allowed_hosts)
    return Starlette(routes=routes, middleware=[guard], exception_handlers={404: partial(_not_found, site)})


def store_pages() -> tuple[dict[str, Handler], dict[str, Handler]]:
    """Return the pages of a store directory, and what their forms do. Raises MissingExtra."""
    from cometmq.console.pages import store  # noqa: PLC0415  it needs an extra that consoles of clusters do not

    pages: dict[str, Handler] = {
        "/": store.overview,
        "/files": store.files,
        "/files/{path:path}": store.file,
        "/verify": store.check,
    }
    return pages, {"/verify": store.run_check}


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _show(site: Site, handler: Handler, request: Request) -> Response:
    """Answer a request for a page."""
    visitor = await site.visitors.find(request.cookies.get(COOKIE, ""))
    if visitor is None:
        return RedirectResponse("/sign-in", 303)
    return await _answer(handler, Visit(site, request, visitor, {}))


async def _act(site: Site, handler: Handler, request: Request, *, changes: bool = True) -> Response:
    """Answer a form that asks for an action, which ``changes`` the cluster or not."""
    visitor = await site.visitors.find(request.cookies.get(COOKIE, ""))
    if visitor is None:
        return RedirectResponse("/sign-in", 303)
    try:
        form = await read_form(request, site.workload)
        check_form(form, visitor)
        if changes and site.settings.read_only:
            raise errors.AccessError("this console is read-only: start it without --read-only")
    except errors.CometMQError as error:
        return await _explain(site, visitor, error)
    return await _answer(handler, Visit(site, request, visitor, form))


async def _answer(handler: Handler, visit: Visit) -> Response:
    try:
        return await handler(visit)
    except errors.CometMQError as error:
        return await _explain(visit.site, visit.visitor, error)


async def _explain(site: Site, visitor: Visitor, error: errors.CometMQError) -> Response:
    """Render the page of an error."""
    if isinstance(error, errors.NoRoute) and error.topic is not None and visitor.cluster is not None:
        error = await missing_topic(visitor.cluster, error.topic)
    status = status_of(error)
    return site.page("error.html", status=status, visitor=visitor, text=str(error), code=status)


async def _not_found(site: Site, request: Request, _error: Exception) -> Response:
    visitor = await site.visitors.find(request.cookies.get(COOKIE, ""))
    text = f"there is no page {request.url.path[:200]}"
    return site.page("error.html", status=404, visitor=visitor, text=text, code=404)


def status_of(error: errors.CometMQError) -> int:
    """Return the HTTP status of an error."""
    match error:
        case errors.NoBroker():
            return 504
        case errors.NotFound():
            return 404
        case errors.RemoteError() if error.code in NOT_FOUND:
            return 404
        case errors.RemoteError() if error.code == ResponseCode.NO_PERMISSION:
            return 403
        case errors.AccessError():
            return 403
        case errors.SettingsError() | errors.FormatError() | errors.StoreError():
            return 400
        case Busy():
            return 503
        case errors.UnreadableAnswer():
            return 502
        case errors.NetworkError():
            return 504
    return 502
