"""The attributes of topics and groups: which there are, and the values that each allows.

They are texts by name, saved and shown with their topic or group. One that is not set is not stored: its
default is in the code that reads it. All can be changed.

RocketMQ: AttributeUtil.java, TopicAttributes.java, SubscriptionGroupAttributes.java (5.5.0).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cometmq.broker.refused import Refused
from cometmq.format import layout
from cometmq.format.java.java_numbers import LONG_MAX, NoNumber, to_long
from cometmq.wire.bodies.topic import MESSAGE_TYPES, TYPE_ATTRIBUTE
from cometmq.wire.codes import ResponseCode


@dataclass(frozen=True, slots=True)
class Text:
    """Any text but the empty one, without commas: at these RocketMQ's tools split attributes.

    Attributes:
        length_max: the most characters that it has.
    """

    length_max: int

    def __contains__(self, value: str) -> bool:
        return 0 < len(value) <= self.length_max and "," not in value


AllowedValues: TypeAlias = frozenset[str] | range | Text
"""Of an attribute: some texts, whole numbers, or any text."""

_BOOLEANS: Final = frozenset({"true", "false"})
_NAME: Final = Text(layout.TOPIC_LENGTH_MAX)
"""A topic, or a part of the names of topics. (RocketMQ has no limit.)"""
_SHOWN: Final = 60
"""So many characters of a name or a value are in an error's text."""

OF_TOPICS: Final[Mapping[str, AllowedValues]] = {
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    TYPE_ATTRIBUTE: frozenset({"UNSPECIFIED", *MESSAGE_TYPES}),
}
OF_GROUPS: Final[Mapping[str, AllowedValues]] = {
    "priority.factor": range(101),
    "lite.sub.client.quota": range(-1, LONG_MAX + 1),
    "lite.sub.client.max.event.cnt": range(10, LONG_MAX + 1),
    "lite.sub.model": frozenset({"Shared", "Exclusive"}),
    "lite.sub.reset.offset.exclusive": _BOOLEANS,
    "lite.sub.reset.offset.unsubscribe": _BOOLEANS,
    "lite.sub.wildcard": _NAME,
    "lite.bind.topic": _NAME,
}


def changed(
    whose: str,
    present: Mapping[str, str],
    changes: Iterable[tuple[str, str]],
    known: Mapping[str, AllowedValues],
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
            possible = "; ".join(f"+{name}={_text(allowed)}" for name, allowed in known.items())
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"{whose}: attribute {signed[:_SHOWN]!r} with value {value[:_SHOWN]!r}: use -name to remove "
                f"one, or one of {possible}",
            )
    return attributes


def _is_allowed(value: str, allowed: AllowedValues) -> bool:
    if isinstance(allowed, range):
        try:
            return to_long(value) in allowed
        except NoNumber:
            return False
    return value in allowed


def _text(allowed: AllowedValues) -> str:
    """Return how an error names the values of an attribute."""
    if isinstance(allowed, Text):
        return f"TEXT (1 to {allowed.length_max} characters, no comma)"
    if isinstance(allowed, range):
        return f"{allowed[0]} or more" if allowed.stop > LONG_MAX else f"{allowed[0]} to {allowed[-1]}"
    return "|".join(sorted(allowed))
