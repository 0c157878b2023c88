from tests.console.conftest import FORM, browsing, text_of

from cometmq.console.settings import ConsoleSettings
from cometmq.console.signing_in import COOKIE
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_pages_are_for_those_who_signed_in(guarded: EmbeddedBroker) -> None:
    async with browsing(ConsoleSettings(guarded.name_server, login=True)) as browser:
        for path in ("/", "/topics", "/groups/x"):
            answer = await browser.page(path, 303)
            assert answer.headers["location"] == "/sign-in"
        form = await browser.page("/sign-in")
        assert "Topics" not in form.text, "no menu before"
        wrong = await browser.client.post("/sign-in", data={"user": "root", "secret": "no"})
        assert wrong.status_code == 403 and "check signature failed" in text_of(wrong)
        assert "no" not in wrong.text.partition("<form")[2].partition("<button")[0].split('"')
        long = await browser.client.post("/sign-in", data={"user": "x" * 10_000, "secret": "no"})
        assert long.status_code == 403 and "a form may have 8192 bytes" in text_of(long)
        right = await browser.client.post("/sign-in", data=FORM)
        assert right.status_code == 303
        cookie = right.headers["set-cookie"]
        assert cookie.startswith(COOKIE) and "HttpOnly" in cookie and "SameSite=strict" in cookie
        page = await browser.page("/topics")
        assert "Sign out root" in page.text
        out = await browser.send(page, "/sign-out")
        assert out.headers["location"] == "/sign-in"
        await browser.page("/topics", 303)


async def test_another_site_can_sign_nobody_out(guarded: EmbeddedBroker) -> None:
    async with browsing(ConsoleSettings(guarded.name_server, login=True)) as browser:
        assert (await browser.client.post("/sign-out")).headers["location"] == "/sign-in"
        await browser.client.post("/sign-in", data=FORM)
        assert (await browser.client.post("/sign-out", data={"form_token": "guess"})).status_code == 403
        await browser.page("/topics")
