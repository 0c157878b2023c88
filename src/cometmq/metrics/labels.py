"""Labels that an operator adds to all metrics of a server."""

import re
from typing import Final

from cometmq.errors import SettingsError

OWN: Final = frozenset({"cluster", "node_type", "node_id", "le"})
"""Labels that operators cannot set."""
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def labels_of(text: str) -> dict[str, str]:
    """Parse ``name:value,name:value``. Raises SettingsError."""
    labels = {}
    for part in filter(None, text.split(",")):
        name, colon, value = part.strip().partition(":")
        if not (colon and _NAME.fullmatch(name)) or name in OWN or name.startswith("__"):
            raise SettingsError(
                f"setting metricsLabel = {text!r}: write it as name:value,name:value; a name has letters, "
                f"digits and _, and is none of {', '.join(sorted(OWN))}"
            )
        labels[name] = value
    return labels
