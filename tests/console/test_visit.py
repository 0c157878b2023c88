import pytest
from tests.console.conftest import Browser

from cometmq.console.visit import parse_number
from cometmq.errors import SettingsError


def test_a_number_is_within_its_limits_or_the_default() -> None:
    assert parse_number("page", "", 7) == 7
    assert parse_number("page", "12", 7, most=12) == 12
    for text in ("13", "-1", "1e3", "٣", "9" * 40, "0" * 30 + "9", "0" * 20 + "9" * 5_000):
        with pytest.raises(SettingsError, match=r"page .*: write a whole number from 0 to 12"):
            parse_number("page", text, 7, most=12)


async def test_spaces_around_a_name_do_not_matter(browser: Browser) -> None:
    assert "TBW102" in await browser.text("/topics?system=1&find=+tbw102+")
