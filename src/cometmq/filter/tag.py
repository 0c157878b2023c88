"""Tag expressions: ``*`` or ``TagA || TagB``.

The broker compares hashes only (the tags code of a ConsumeQueue entry is the Java hash of the tag),
so a message of another tag with the same hash passes; the consumer compares the text again.
(RocketMQ: FilterAPI.java, ExpressionMessageFilter.java.)
"""

from collections.abc import Iterable
from typing import Final

from cometmq.arguments import TEXT, check, or_none, shown
from cometmq.errors import FormatError, IllegalArgument
from cometmq.format.java.java_hash import tags_code

ALL = "*"
"""The expression that accepts every message."""

SEPARATOR: Final = "||"
TAGS_MAX: Final = 2_000
"""Most tags of an expression: clients decide about it, and the broker hashes each in its event loop."""
LENGTH_MAX: Final = 65_536
"""Longest expression in characters."""


def parse(expression: str | None) -> frozenset[str] | None:
    """Return the tags of an expression, or None if it accepts every message.

    Raises FormatError for an expression of separators only, such as ``||``, and for one that is too long;
    IllegalType if it is not a str.
    """
    check(or_none(TEXT), tags=expression)
    if expression is None or expression in {"", ALL}:
        return None
    if len(expression) > LENGTH_MAX or expression.count(SEPARATOR) >= TAGS_MAX:
        raise FormatError(
            f"tag expression {expression[:50]!r}… has {len(expression)} characters and "
            f"{expression.count(SEPARATOR) + 1} tags, the limits are {LENGTH_MAX} and {TAGS_MAX}: "
            "subscribe to '*', or use fewer tags"
        )
    parts = expression.split(SEPARATOR)
    if not any(parts):
        raise FormatError(f"tag expression {expression!r} names no tag: write '*' or 'TagA || TagB'")
    return frozenset(tag for part in parts if (tag := part.strip()))


def check_filter(tags: str | None, sql: str | None) -> None:
    """Check the filter of a consumer: tags, or a condition in SQL92, which no broker combines.

    Raises:
        FormatError: ``tags`` is no tag expression, or has ``*`` beside tags, where it matches nothing.
        IllegalArgument: both are given, or the condition is empty.
        IllegalType: one is not a str.
    """
    found = parse(tags)
    check(or_none(TEXT), sql=sql)
    if sql is None:
        if found is not None and (not found or ALL in found):
            raise FormatError(
                f"tag expression {tags!r}: write '*' alone for all, or name tags: 'TagA || TagB'"
            )
        return
    if not sql.strip():
        raise IllegalArgument(f"sql {sql!r}: give a condition, such as 'size > 3', or None for none")
    if found is not None:
        of_tags = ", ".join("'" + tag.replace("'", "''") + "'" for tag in sorted(found))
        raise IllegalArgument(
            f"tags {shown(tags)} and sql {shown(sql)}: give only one of them; a condition can name the tags: "
            f"TAGS IN ({of_tags}) AND ({sql})"
        )


def codes(tags: Iterable[str] | None) -> frozenset[int] | None:
    """Return the tags codes to look for in a ConsumeQueue, or None for any."""
    return None if tags is None else frozenset(tags_code(tag) for tag in tags)
