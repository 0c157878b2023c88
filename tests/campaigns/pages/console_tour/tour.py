"""A real browser at a console: it opens pages, and finds what is wrong with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize

PICTURES: Final = Path(__file__).parents[4] / "build" / "console-tour"
WIDTHS: Final = {"wide": ViewportSize(width=1280, height=800), "narrow": ViewportSize(width=390, height=844)}
SCHEMES: Final = ("light", "dark")
GRAVE: Final = ("serious", "critical")
"""The impacts of axe-core's findings that a page must not have."""
PATIENCE_MS: Final = 240_000
FITS: Final = """async () => {
  for (let frame = 0; frame < 600; frame++) {
    if (document.documentElement.scrollWidth <= window.innerWidth) return true;
    await new Promise(requestAnimationFrame);
  }
  return false;
}"""
NOT_LOADED: Final = "Failed to load resource"
"""Begins what the browser writes of each page with an error's status: these are wanted here."""


class Tour:
    """A visitor of a console.

    Attributes:
        page: the browser's page; its forms are filled and sent by Playwright's own methods.
        faults: what the browser has complained of: scripts that failed, and what the content policy refused.
    """

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.faults: list[str] = []
        self._address = address
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._hear)

    def open(self, path: str, status: int = 200) -> str:
        """Open a page that has this status, and return the text of its main part."""
        answer = self.page.goto(f"http://{self._address}{path}")
        assert answer is not None and answer.status == status, f"{path}: {answer and answer.status}"
        return self.text()

    def text(self) -> str:
        """Return the text of the page's main part, with each run of white space as one space."""
        return " ".join(self.page.inner_text("main").split())

    def look(self, name: str) -> None:
        """Judge the page, light and dark, wide and narrow, and keep a picture of each."""
        for scheme in SCHEMES:
            self.page.emulate_media(color_scheme=scheme)
            for width, size in WIDTHS.items():
                self.page.set_viewport_size(size)
                assert self._fits(), f"{name} is wider than a {width} window"
                self.page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
            self._judge(name, scheme)
        self.page.set_viewport_size(WIDTHS["wide"])
        assert self.faults == [], name

    def _judge(self, name: str, scheme: str) -> None:
        found = Axe().run(self.page).response["violations"]
        grave = [
            f"{one['help']}: {node['html']}"
            for one in found
            if one["impact"] in GRAVE
            for node in one["nodes"]
        ]
        assert grave == [], f"{name}, {scheme}: {grave}"

    def _fits(self) -> bool:
        """Return whether the page becomes no wider than the window, to which it adapts by scripts, too."""
        return bool(self.page.evaluate(FITS))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(NOT_LOADED):
            self.faults.append(message.text)


@contextmanager
def touring(browser: Browser, address: str, **options: Any) -> Iterator[Tour]:
    """Open a window of its own, with nobody's cookies, at a console."""
    context = browser.new_context(viewport=WIDTHS["wide"], **options)
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Tour(context.new_page(), address)
    finally:
        context.close()
