"""A picture of each of the console's views, light and dark, wide and narrow, and the page that shows them.

    python -m tests.campaigns console-sheets

The pictures that ``console`` has left are put together by the same browser, four in one, and go to
``docs/guide/images/views``; the page is ``docs/guide/console-views.md``. What is long is cut off.
"""

import shutil
from argparse import ArgumentParser, Namespace
from html import escape
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright
from tests.campaigns.pages.console_tour.conftest import chromium
from tests.campaigns.pages.console_tour.tour import PICTURES, SCHEMES, WIDTHS

ROOT: Final = Path(__file__).parents[4]
GUIDE: Final = ROOT / "docs" / "guide"
IMAGES: Final = Path("images") / "views"
VIEWS: Final = {
    "overview": "Overview",
    "topics": "Topics",
    "topic": "A topic",
    "messages": "Messages of a topic",
    "messages-key": "Messages with a key",
    "message-json": "A message as JSON",
    "message-hex": "A message byte by byte",
    "message-traced": "A message and its trace",
    "tail": "New messages as they come",
    "groups": "Groups",
    "group": "A group",
    "group-lags": "The lag of a group over time",
    "group-reset": "A reset, tried out",
    "dead-letters": "Groups with dead letters",
    "letters": "The dead letters of a group",
    "waiting": "What waits",
    "producers": "Producers",
    "send": "Sending a message",
    "users": "Users",
    "user": "A user and what it may do",
    "replication-pair": "A master and its slave",
    "store": "A store of a broker that does not run",
    "store-files": "Its files",
    "store-log": "Its log",
    "store-record": "A record of it, byte by byte",
    "store-checkpoint": "Its checkpoint",
    "sign-in": "Signing in",
    "read-only": "A console that changes nothing",
}
"""The views by the names of their pictures."""
SHOWN: Final = {"wide": 560, "narrow": 170}
"""So many pixels of a sheet a picture is wide."""
HEIGHT: Final = 400
GAP: Final = 8
QUALITY: Final = 60
PAGE: Final = """# The console's views

Each view of the [console](console.md): light and dark, in a wide window and in a narrow one. The tests that
visit it with Chromium take the pictures (`make campaign NAME=console`), and `make campaign
NAME=console-sheets` puts them here.
"""


def sheet_of(view: str) -> str:
    """Return HTML with the four pictures of a view side by side."""
    style = f"display: flex; gap: {GAP}px; margin: 0; background: #888; height: {HEIGHT}px; overflow: hidden"
    pictures = "".join(
        f'<img src="{escape(f"{view}-{scheme}-{width}.png")}" style="width: {SHOWN[width]}px; height: auto; '
        'align-self: start">'
        for scheme in SCHEMES
        for width in WIDTHS
    )
    return f'<body style="{style}">{pictures}</body>'


def options(_: ArgumentParser) -> None:
    """Add nothing."""


def main(_: Namespace) -> list[str]:
    """Write the pictures and their page."""
    folder = GUIDE / IMAGES
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    width = len(SCHEMES) * (sum(SHOWN.values()) + len(SHOWN) * GAP) - GAP
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        page = browser.new_page(viewport={"width": width, "height": HEIGHT})
        for view in VIEWS:
            html = PICTURES / f"{view}.html"
            html.write_text(sheet_of(view))
            page.goto(html.as_uri())
            page.screenshot(path=folder / f"{view}.jpg", type="jpeg", quality=QUALITY)
        browser.close()
    shown = [f"## {title}\n\n![{title}]({IMAGES / f'{view}.jpg'})\n" for view, title in VIEWS.items()]
    (GUIDE / "console-views.md").write_text("\n".join([PAGE, *shown]))
    return []
