import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq.broker.admin.attributes import OF_GROUPS, OF_TOPICS, Values, changed
from cometmq.broker.refused import Refused

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mqadmin.md"
KNOWN: Mapping[str, Values] = {"colour": frozenset({"red", "blue"}), "size": range(1, 10), "name": None}


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
        "+colour=blue|red; +size=1 to 9; +name=TEXT"
    )


def test_the_page_has_all_attributes_with_their_values() -> None:
    rows = re.findall(r"(?m)^\| (topics|groups) \| `(.+?)` \| (.+) \|$", PAGE.read_text())
    shown = {whose: {name: text for of, name, text in rows if of == whose} for whose in ("topics", "groups")}
    assert shown == {"topics": written(OF_TOPICS), "groups": written(OF_GROUPS)}


def written(known: Mapping[str, Values]) -> dict[str, str]:
    """Return the values of attributes as the page has them."""
    return {name: text_of(values) for name, values in known.items()}


def text_of(values: Values) -> str:
    if values is None:
        return "any text"
    if isinstance(values, range):
        return f"{values[0]} or more" if values.stop > 2**62 else f"{values[0]} to {values[-1]}"
    return ", ".join(f"`{value}`" for value in sorted(values))
