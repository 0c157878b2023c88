import pytest
from jinja2 import UndefinedError

from cometmq.console import rendering
from cometmq.console.rendering import environment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rendering.count_text(1_234_567), "1,234,567"),
        (rendering.count_text(None), "–"),
        (rendering.count_text(10**400), "inf"),
        (rendering.rate_text(10**400), "inf"),
        (rendering.size_text(10**400), "inf TiB"),
        (rendering.rate_text(3.25), "3.2"),
        (rendering.rate_text(12_345.6), "12,346"),
        (rendering.rate_text(0), "0"),
        (rendering.rate_text(None), "–"),
        (rendering.percent_text(0.436), "44%"),
        (rendering.percent_text(None), "–"),
        (rendering.size_text(1023), "1023 B"),
        (rendering.size_text(1536), "1.5 KiB"),
        (rendering.size_text(200 * 1024), "200 KiB"),
        (rendering.size_text(5 * 1024**4), "5.0 TiB"),
        (rendering.time_markup(0), "–"),
        (rendering.ago_text(1_000, 62_000), "1m 1s"),
        (rendering.ago_text(0, 62_000), "–"),
        (rendering.up_text("0 days, 2 hours, 0 minutes, 5 seconds"), "2 hours, 5 seconds"),
        (rendering.up_text("0 days, 0 hours"), "just started"),
        (rendering.up_text(None), "–"),
        (str(rendering.path_text("a/b?c%d")), "a%2Fb%3Fc%25d"),
        (rendering.url_of("/topics", {"find": "a b", "sort": "", "page": None}), "/topics?find=a+b"),
        (rendering.url_of("/topics", {}), "/topics"),
    ],
)
def test_values_are_short_and_plain(text: str, expected: str) -> None:
    assert text == expected


def test_a_time_shows_its_second_and_has_the_rest_at_hand() -> None:
    whole = "2020-09-13T12:26:40.123Z"
    expected = f'<time datetime="{whole}" title="{whole}">2020-09-13 12:26:40</time>'
    assert rendering.time_markup(1_600_000_000_123) == expected


def test_texts_are_escaped_and_a_missing_value_is_an_error() -> None:
    found = environment()
    assert found.from_string("{{ x }}").render(x="<b>'\"") == "&lt;b&gt;&#39;&#34;"
    with pytest.raises(UndefinedError):
        found.from_string("{{ y }}").render()
