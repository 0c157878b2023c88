"""What protects visitors: a content policy, names of hosts, and forms from the console's own pages only."""

import hmac
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cometmq.console.visitors import Visitor
from cometmq.console.workload import Workload
from cometmq.errors import AccessError, SettingsError

FORM_TOKEN: Final = "form_token"  # noqa: S105  the name of a field
FORM_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of a form: twice a message's body, as a form escapes bytes."""
FIELDS_MAX: Final = 1_000
UNQUOTED_BYTES: Final = 64 * 1024
"""Bytes of a form that are decoded together."""
INLINE_BYTES_MAX: Final = 16 * 1024
"""Longest form that is read in the loop; others are read in a thread."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


class Guarding:
    """Refuses requests to other hosts, and adds the headers that protect visitors to each answer.

    Args:
        app: the application behind it.
        hosts: the hosts that requests may name; None for any.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if not scope["path"].startswith("/static/"):
                    headers["cache-control"] = "no-store"
            await send(message)

        host = _host_of(Headers(scope=scope).get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            text = f"host {host[:100]!r} is not one of this console's: start it with --host-name NAME\n"
            await PlainTextResponse(text, 400)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)


def _host_of(header: str) -> str:
    """Return the name in a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.rpartition(":")[0] if ":" in header else header


async def read_form(
    request: Request, workload: Workload, *, bytes_max: int = FORM_BYTES_MAX
) -> dict[str, str]:
    """Read a form that a page of the console sent.

    Raises:
        AccessError: another site sent it.
        SettingsError: it has more bytes or fields than a form may have, or it ends in the middle.
        Busy: so many bytes of forms are arriving that there is no room for it.
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise AccessError("another site sent this form: open the console's own page, and send it there")
    body = bytearray()
    with workload.form() as take_room:
        try:
            async for part in request.stream():
                take_room(len(part))
                body += part
                if len(body) > bytes_max:
                    raise SettingsError(
                        f"a form may have {bytes_max} bytes: send larger messages by cometmq send"
                    )
        except ClientDisconnect:
            raise SettingsError("this form ends in the middle") from None
        if len(body) <= INLINE_BYTES_MAX:
            return _fields(body)
        return await workload.off_loop(partial(_fields, body))


def _fields(body: bytearray) -> dict[str, str]:
    if (count := body.count(b"&") + 1) > FIELDS_MAX:
        raise SettingsError(f"this form cannot be read: it has {count} fields, and may have {FIELDS_MAX}")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"this form cannot be read: {error.reason}") from None
    pairs = (pair.partition(b"=") for pair in bytes(body).split(b"&") if pair)
    return {_unquoted(name): _unquoted(value) for name, _, value in pairs}


def _unquoted(text: bytes) -> str:
    """Decode a name or a value, in pieces: urllib holds several objects for each escaped byte."""
    pieces: list[bytes] = []
    begin = 0
    while begin < len(text):
        end = begin + UNQUOTED_BYTES
        if end < len(text) and (escape := text.rfind(b"%", end - 2, end)) >= 0:
            end = escape
        pieces.append(unquote_to_bytes(text[begin:end].replace(b"+", b" ")))
        begin = end
    return b"".join(pieces).decode(errors="replace")


def check_form(form: dict[str, str], visitor: Visitor) -> None:
    """Check that a form is from a page that this visitor has got. Raises AccessError."""
    if not hmac.compare_digest(form.get(FORM_TOKEN, "").encode(), visitor.form_token.encode()):
        raise AccessError("this form is out of date, as the console was started anew: open its page again")
