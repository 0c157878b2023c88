"""Turn the names and values of a settings file into a class of settings; errors name the values allowed."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from cometmq.errors import SettingsError

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


def settings_from(kind: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """Build settings from names and values as in a file; other names are ignored.

    Raises SettingsError that names the setting, its value and the values allowed.
    """
    mine = {name: value for name, value in values.items() if name in kind.__struct_encode_fields__}
    try:
        return msgspec.convert(mine, kind, strict=False)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].rstrip("`")
        raise SettingsError(f"setting {name} = {mine.get(name)!r}: {_allowed(kind, name) or error}") from None


def _allowed(kind: type[msgspec.Struct], name: str) -> str:
    """Return which values a setting allows; empty if its type does not tell."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    types = [field.type for field in described.fields if field.encode_name == name]
    while types:
        match types.pop():
            case inspect.UnionType(types=members):  # one that may be left out
                types += members
            case inspect.Metadata(extra_json_schema={"examples": examples}):
                return f"allowed: values such as {', '.join(examples)}"
            case inspect.BoolType():
                return "allowed: true, false"
            case inspect.EnumType(cls=members):
                return f"allowed: {', '.join(str(member.value) for member in members)}"
            case inspect.IntType(ge=least, le=most):
                return f"allowed: a whole number{_range(least, most)}"
            case _:
                continue
    return ""


def _range(least: int | None, most: int | None) -> str:
    if least is None:
        return "" if most is None else f" up to {most}"
    return f" of at least {least}" if most is None else f" from {least} to {most}"
