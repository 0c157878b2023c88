from enum import StrEnum
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from cometmq.errors import SettingsError
from cometmq.settings.values import HIDDEN, SettingsGroup, flat_fields, settings_from


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


class Port(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    secrets = frozenset({"port_password"})

    port_number: Annotated[int, Meta(ge=0, le=9)] = 1
    port_password: str = ""


class Server(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    port: Port = Port()
    server_name: str = "s"


def test_files_know_no_groups() -> None:
    found = settings_from(Server, {"portNumber": "7", "serverName": "t"})
    assert found == Server(port=Port(port_number=7), server_name="t")
    assert found.in_files() == {"portNumber": 7, "portPassword": "", "serverName": "t"}
    assert [field.encode_name for field in flat_fields(Server)] == list(found.in_files())
    with pytest.raises(
        SettingsError, match=r"^setting portNumber = '10': allowed: a whole number from 0 to 9$"
    ):
        settings_from(Server, {"portNumber": "10"})
    assert settings_from(Server, {"port": "7"}) == Server()


def test_settings_are_changed_by_name_whatever_group_has_them() -> None:
    given = Server.of(port_number=7, server_name="t")
    assert given.changed(port_password="p") == Server(
        port=Port(port_number=7, port_password="p"), server_name="t"
    )
    with pytest.raises(TypeError, match="no_setting"):
        Server.of(no_setting=1)


def test_secrets_of_groups_are_not_shown() -> None:
    given = Server.of(port_password="hush")
    assert "hush" not in repr(given)
    assert given.in_files(shows_secrets=False)["portPassword"] == HIDDEN
    assert given.in_files()["portPassword"] == "hush"
