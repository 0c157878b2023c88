"""The page of a server has what is followed there."""

import re

import pytest
from tests.campaigns.pages.server_page import PAGE, script, steps, typed
from tests.campaigns.pages.servers import EARLIER, LATER


@pytest.mark.parametrize("title", ["Install", "Settings", "Start", "Upgrade", "Back up and restore"])
def test_a_section_has_a_script(title: str) -> None:
    assert script(title)


@pytest.mark.parametrize("title", ["Before the first start", "Start", "Back up and restore"])
def test_a_section_has_something_to_type(title: str) -> None:
    assert any(re.search(r"\bcometmq \w", line) for line in typed(title))


def test_the_versions_are_those_of_the_page() -> None:
    assert set(re.findall(r"==([\d.]+)'", PAGE.read_text())) == {EARLIER, LATER}


def test_a_script_is_split_where_systemctl_takes_its_turn() -> None:
    text = "cd /here\nls\nsystemctl stop a\nsystemctl start b\nls\n"
    assert list(steps(text)) == [
        (False, "cd /here\nls"),
        (True, "systemctl stop a\nsystemctl start b"),
        (False, "ls"),
    ]
