import tracemalloc

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from tests.console.conftest import Browser

from cometmq.console import guarding, workload
from cometmq.console.guarding import FORM_TOKEN, Guarding, check_form, read_form
from cometmq.console.visitors import Visitor
from cometmq.console.workload import Busy, Workload
from cometmq.errors import AccessError, SettingsError

VISITOR = Visitor("", "secret", "", None)


async def test_each_answer_forbids_what_is_inline_and_other_sites(browser: Browser) -> None:
    for path in ("/topics", "/nowhere", "/static/console/console.css"):
        headers = (await browser.client.get(path)).headers
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert (headers.get("cache-control") == "no-store") == ("static" not in path)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8090", 200), ("[::1]:8090", 200), ("localhost", 200), ("evil.example", 400), ("", 400)],
)
async def test_requests_that_name_another_host_are_refused(host: str, status: int) -> None:
    app = Guarding(PlainTextResponse("fine"), frozenset(("localhost", "[::1]")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        answer = await client.get("/", headers={"host": host})
    assert answer.status_code == status
    assert status == 200 or "start it with --host-name NAME" in answer.text


WORKLOAD = Workload(1)


async def form_of(body: bytes, *, is_cut: bool = False, **headers: str) -> dict[str, str]:
    parts: list[dict[str, object]] = [
        {"type": "http.request", "body": body, "more_body": is_cut},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, object]:
        return parts.pop(0)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return await read_form(Request({"type": "http", "method": "POST", "headers": raw}, receive), WORKLOAD)


async def test_a_form_is_read_with_its_empty_fields() -> None:
    assert await form_of(b"a=1&b=&c=%E2%82%AC+x") == {"a": "1", "b": "", "c": "€ x"}
    assert await form_of(b"a=1", sec_fetch_site="same-origin") == {"a": "1"}
    assert await form_of("a=größe&b".encode()) == {"a": "größe", "b": ""}


@pytest.mark.parametrize("shift", range(3))
async def test_a_long_form_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    monkeypatch.setattr(guarding, "UNQUOTED_BYTES", 10)
    assert await form_of(b"a=" + b"x" * shift + b"%E2%82%AC+%" * 9) == {"a": "x" * shift + "€ %" * 9}


async def test_a_form_of_escapes_takes_little_memory() -> None:
    body = b"a=" + b"%41" * 2_000_000
    tracemalloc.start()
    try:
        assert await form_of(body) == {"a": "A" * 2_000_000}
        assert tracemalloc.get_traced_memory()[1] < 6 * len(body)
    finally:
        tracemalloc.stop()


async def test_a_form_of_another_site_or_of_no_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match="another site"):
        await form_of(b"a=1", sec_fetch_site="cross-site")
    with pytest.raises(SettingsError, match="cannot be read"):
        await form_of(b"a=\xff\xfe" + b"\xff")
    with pytest.raises(SettingsError, match="cannot be read"):
        await form_of(b"&".join([b"a=1"] * 1_001))
    with pytest.raises(SettingsError, match="ends in the middle"):
        await form_of(b"a=1", is_cut=True)
    with pytest.raises(SettingsError, match="may have 8388608 bytes"):
        await form_of(b"a" * (guarding.FORM_BYTES_MAX + 1))
    monkeypatch.setattr(workload, "FORMS_BYTES_MAX", 3)
    with pytest.raises(Busy, match="0 bytes of forms are arriving"):
        await form_of(b"a=12")
    assert await form_of(b"a=1") == {"a": "1"}


def test_a_form_needs_the_token_of_its_visitor() -> None:
    check_form({FORM_TOKEN: "secret"}, VISITOR)
    for form in ({}, {FORM_TOKEN: "other"}, {FORM_TOKEN: "ü"}):
        with pytest.raises(AccessError, match="open its page again"):
            check_form(form, VISITOR)
