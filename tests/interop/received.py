"""What ``java/Received.java`` prints of a consumer."""

from typing import Any

TROUBLES = ("missing", "twice", "unexpected", "damaged")


def each_once(consumer: str, count: int) -> dict[str, Any]:
    """Return what is printed if each of so many messages came, once and undamaged."""
    troubles: dict[str, Any] = {trouble: [] for trouble in TROUBLES}
    return {"consumer": consumer, "expected": count, "received": count} | troubles
