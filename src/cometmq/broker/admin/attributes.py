"""The attributes of topics and groups: which there are, their values, and changes of them.

They are texts by name, saved and shown with their topic or group. One that is not set is not stored: its
default is in the code that reads it. All can be changed.

RocketMQ: AttributeUtil.java, TopicAttributes.java, SubscriptionGroupAttributes.java (5.5.0).
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from cometmq.broker.refused import Refused
from cometmq.format.java.java_numbers import LONG_MAX, NoNumber, to_long
from cometmq.wire.bodies.topic import MESSAGE_TYPES, TYPE_ATTRIBUTE
from cometmq.wire.codes import ResponseCode

Values: TypeAlias = frozenset[str] | range | None
"""Of an attribute: some texts, whole numbers, or None for any text but the empty one."""

_BOOLEANS: Final = frozenset({"true", "false"})
_SHOWN: Final = 60
"""So many characters of a name or a value are in an error's text."""

OF_TOPICS: Final[Mapping[str, Values]] = {
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    TYPE_ATTRIBUTE: frozenset({"UNSPECIFIED", *MESSAGE_TYPES}),
}
OF_GROUPS: Final[Mapping[str, Values]] = {
    "priority.factor": range(101),
    "lite.sub.client.quota": range(-1, LONG_MAX + 1),
    "lite.sub.client.max.event.cnt": range(10, LONG_MAX + 1),
    "lite.sub.model": frozenset({"Shared", "Exclusive"}),
    "lite.sub.reset.offset.exclusive": _BOOLEANS,
    "lite.sub.reset.offset.unsubscribe": _BOOLEANS,
    "lite.sub.wildcard": None,
    "lite.bind.topic": None,
}


def changed(
    whose: str, present: Mapping[str, str], changes: Iterable[tuple[str, str]], known: Mapping[str, Values]
) -> dict[str, str]:
    """Return attributes after changes.

    Args:
        whose: the topic or the group, for errors.
        changes: ``+name`` with a value sets an attribute, ``-name`` removes it.
        known: the attributes that there are.

    Raises:
        Refused: an attribute is not known, does not allow the value, or has no sign.
    """
    attributes = dict(present)
    for signed, value in changes:
        sign, name = signed[:1], signed[1:]
        if sign == "-":
            attributes.pop(name, None)
        elif sign == "+" and name in known and _is_allowed(value, known[name]):
            attributes[name] = value
        else:
            allowed = "; ".join(f"+{name}={_text(values)}" for name, values in known.items())
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"{whose}: attribute {signed[:_SHOWN]!r} with value {value[:_SHOWN]!r}: use -name to remove "
                f"one, or one of {allowed}",
            )
    return attributes


def _is_allowed(value: str, values: Values) -> bool:
    if isinstance(values, range):
        try:
            return to_long(value) in values
        except NoNumber:
            return False
    return value in values if values is not None else value != ""


def _text(values: Values) -> str:
    """Return how an error names the values of an attribute."""
    if values is None:
        return "TEXT"
    if isinstance(values, range):
        return f"{values[0]} or more" if values.stop > LONG_MAX else f"{values[0]} to {values[-1]}"
    return "|".join(sorted(values))
