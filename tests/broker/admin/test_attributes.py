import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq.broker.admin.attributes import OF_GROUPS, OF_TOPICS, AllowedValues, Text, changed
from cometmq.broker.refused import Refused

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mqadmin.md"
KNOWN: Mapping[str, AllowedValues] = {
    "colour": frozenset({"red", "blue"}),
    "size": range(1, 10),
    "name": Text(4),
}


def test_attributes_are_set_and_removed_in_order() -> None:
    changes = [("+colour", "red"), ("+size", "9"), ("-name", ""), ("+colour", "blue"), ("-none", "")]
    assert changed("topic T", {"name": "x"}, changes, KNOWN) == {"colour": "blue", "size": "9"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("+colour", "green"),
        ("+size", "0"),
        ("+size", "10"),
        ("+size", "many"),
        ("+name", ""),
        ("+name", "abcde"),
        ("+name", "a,b"),
        ("+shape", "round"),
        ("colour", "red"),
        ("", ""),
    ],
)
def test_what_an_attribute_cannot_be_is_refused_with_what_it_can_be(name: str, value: str) -> None:
    with pytest.raises(Refused) as caught:
        changed("topic T", {}, [(name, value)], KNOWN)
    assert str(caught.value).endswith(
        f"topic T: attribute {name!r} with value {value!r}: use -name to remove one, or one of "
        "+colour=blue|red; +size=1 to 9; +name=TEXT (1 to 4 characters, no comma)"
    )


def test_no_value_has_a_comma_at_which_tools_split_attributes() -> None:
    for allowed in (*OF_TOPICS.values(), *OF_GROUPS.values()):
        assert not isinstance(allowed, frozenset) or "," not in "".join(allowed)


def test_the_page_has_all_attributes_with_their_values() -> None:
    rows = re.findall(r"(?m)^\| (topics|groups) \| `(.+?)` \| (.+) \|$", PAGE.read_text())
    shown = {whose: {name: text for of, name, text in rows if of == whose} for whose in ("topics", "groups")}
    assert shown == {"topics": written(OF_TOPICS), "groups": written(OF_GROUPS)}


def written(known: Mapping[str, AllowedValues]) -> dict[str, str]:
    """Return the values of attributes as the page has them."""
    return {name: text_of(allowed) for name, allowed in known.items()}


def text_of(allowed: AllowedValues) -> str:
    if isinstance(allowed, Text):
        return f"a text of 1 to {allowed.length_max} characters without commas"
    if isinstance(allowed, range):
        return f"{allowed[0]} or more" if allowed.stop > 2**62 else f"{allowed[0]} to {allowed[-1]}"
    return ", ".join(f"`{value}`" for value in sorted(allowed))
