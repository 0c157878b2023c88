from enum import StrEnum
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from cometmq.errors import SettingsError
from cometmq.settings.values import settings_from


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Settings(msgspec.Struct, rename="camel"):
    is_on: bool = True
    colour: Colour | None = None
    port_number: Annotated[int, Meta(ge=0, le=9)] | None = None
    at_least: Annotated[int, Meta(ge=1)] = 1
    at_most: Annotated[int, Meta(le=5)] = 1
    any_number: int = 1
    short: Annotated[str, Meta(max_length=2)] = ""
    hours: Annotated[str, Meta(pattern="^[0-9]+$", examples=["04", "16"])] = "04"


def test_texts_become_values_and_other_names_are_ignored() -> None:
    found = settings_from(Settings, {"isOn": "false", "colour": "blue", "portNumber": "7", "other": "x"})
    assert found == Settings(is_on=False, colour=Colour.BLUE, port_number=7)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("isOn", "maybe", "allowed: true, false"),
        ("colour", "green", "allowed: red, blue"),
        ("portNumber", "10", "allowed: a whole number from 0 to 9"),
        ("atLeast", "0", "allowed: a whole number of at least 1"),
        ("atMost", "6", "allowed: a whole number up to 5"),
        ("anyNumber", "1.5", "allowed: a whole number"),
        ("hours", "noon", "allowed: values such as 04, 16"),
        ("short", "long", r"Expected `str` of length <= 2 .*"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_those_that_can(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingsError, match=rf"^setting {name} = '{value}': {allowed}$"):
        settings_from(Settings, {name: value})
