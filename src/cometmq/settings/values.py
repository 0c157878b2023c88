"""Settings by subject in code, by flat names in files: a group may have groups; no two have a name in common.

Errors name the setting and the values allowed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo, fields, replace

from cometmq.errors import SettingsError

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)

HIDDEN: Final = "***"
"""What is shown in place of a secret."""


class SettingsGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of one subject, or of a server: some of its fields are groups then."""

    secrets: ClassVar[frozenset[str]] = frozenset()
    """Its own settings whose values are shown nowhere."""

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        values |= {name: HIDDEN for name in self.secrets if values[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Return the defaults but for these values, whatever groups have them."""
        return cls().changed(**values)

    def changed(self, **values: Any) -> Self:
        """Return the settings with these values, whatever groups have them."""
        own: dict[str, Any] = {}
        for field in fields(self):
            if _is_group(field.type):
                names = values.keys() & {one.name for one in flat_fields(field.type)}
                if names:
                    group: SettingsGroup = getattr(self, field.name)
                    own[field.name] = group.changed(**{name: values.pop(name) for name in names})
        return replace(self, **own, **values)

    def in_files(self, *, shows_secrets: bool = True) -> dict[str, Any]:
        """Return the values, also of groups, by their names in files."""
        values: dict[str, Any] = {}
        for name, in_files in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True):
            value = getattr(self, name)
            if isinstance(value, SettingsGroup):
                values |= value.in_files(shows_secrets=shows_secrets)
            else:
                is_hidden = value and name in self.secrets and not shows_secrets
                values[in_files] = HIDDEN if is_hidden else msgspec.to_builtins(value)
        return values


def flat_fields(kind: type[msgspec.Struct]) -> Iterator[FieldInfo]:
    """Yield the settings of a class and of its groups, in their order."""
    for field in fields(kind):
        if _is_group(field.type):
            yield from flat_fields(field.type)
        else:
            yield field


def settings_from(kind: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
    """Build settings from names and values as in a file; other names are ignored.

    Raises SettingsError that names the setting, its value and the values allowed.
    """
    try:
        return msgspec.convert(_by_group(kind, values), kind, strict=False)
    except msgspec.ValidationError as error:
        name = str(error).rpartition(".")[2].rstrip("`")
        raise SettingsError(
            f"setting {name} = {values.get(name)!r}: {_allowed(kind, name) or error}"
        ) from None


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SettingsGroup)


def _by_group(kind: type[msgspec.Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a class's settings, those of its groups by group."""
    return {
        field.encode_name: _by_group(field.type, values)
        if _is_group(field.type)
        else values[field.encode_name]
        for field in fields(kind)
        if _is_group(field.type) or field.encode_name in values
    }


def _allowed(kind: type[msgspec.Struct], name: str) -> str:
    """Return which values a setting allows; empty if its type does not tell."""
    types = [inspect.type_info(field.type) for field in flat_fields(kind) if field.encode_name == name]
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
