"""What peers may make an endpoint of metrics hold."""

from typing import Final, NamedTuple


class EndpointLimits(NamedTuple):
    """What peers may make an endpoint hold.

    Attributes:
        connections_max: open connections.
        waiting_max: connections of one address that have not sent their request, or not taken the answer.
        scrapes_max: scrapes that wait at a time for the values of one.
        request_ms_max: how long a whole request may take, and how long taking its answer.
        are_settings: whether a broker's settings say so, for the log.
    """

    connections_max: int = 32
    waiting_max: int = 16
    scrapes_max: int = 16
    request_ms_max: int = 5_000
    are_settings: bool = False

    def setting(self, name: str) -> str:
        """Return what a message that ends with a limit says of the setting of that name."""
        return f" ({name})" if self.are_settings else ""


LIMITS: Final = EndpointLimits()
