"""Log a failure that repeats when it begins and each minute, not each time."""

import asyncio
import math
from typing import Final

AGAIN_S: Final = 60.0


class RepeatedText:
    """Decides whether to log a text, by those that came before."""

    def __init__(self) -> None:
        self._last = ""
        self._logged_at = -math.inf

    def is_due(self, text: str) -> bool:
        """Return whether a text differs from the one before, or was not logged for a minute."""
        now = asyncio.get_running_loop().time()
        if text == self._last and now < self._logged_at + AGAIN_S:
            return False
        self._last, self._logged_at = text, now
        return True

    def clear(self) -> None:
        """Log the next text in any case: what failed has succeeded."""
        self._last = ""
