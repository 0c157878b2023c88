"""Signing in with a user of the cluster, and out."""

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cometmq.console.guarding import read_form
from cometmq.console.visit import Site, Visit
from cometmq.console.visitors import IDLE_MS_MAX
from cometmq.errors import CometMQError

COOKIE: Final = "cometmq_console"
BYTES_MAX: Final = 8 * 1024
"""Most bytes of the form, which strangers send."""


async def show(site: Site, _request: Request) -> Response:
    """Answer with the form."""
    return site.page("sign_in.html", text="", user="")


async def sign_in(site: Site, request: Request) -> Response:
    """Sign in by the form's user and secret; if that fails, answer with the form and the reason."""
    user = ""
    try:
        form = await read_form(request, site.workload, bytes_max=BYTES_MAX)
        user = form.get("user", "").strip()
        visitor = await site.visitors.sign_in(user, form.get("secret", ""))
    except CometMQError as error:
        return site.page("sign_in.html", status=403, text=str(error), user=user)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        COOKIE,
        visitor.token,
        max_age=IDLE_MS_MAX // 1000,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def sign_out(visit: Visit) -> Response:
    """Sign out."""
    await visit.site.visitors.sign_out(visit.visitor)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE)
    return answer
