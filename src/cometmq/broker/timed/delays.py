"""What makes messages wait: a level of delay, or a time of their own."""

from cometmq.broker.timed.delayed import delayed
from cometmq.broker.timed.timed_message import timed
from cometmq.format.delay_level import DelayLevels
from cometmq.io.clock import Clock
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings


class Delays:
    """Gives messages as they wait.

    Attributes:
        levels: the broker's.
    """

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.levels = DelayLevels.parse(settings.message_delay_level)

    def waiting(self, message: NewMessage) -> NewMessage:
        """Give a message as it waits; itself if it asks for no delay.

        Raises MessageIllegal, or Refused if the broker takes no timed messages.
        """
        by_level = delayed(message, self.levels)
        return timed(message, self._settings, self._clock.now_ms()) if by_level is message else by_level
