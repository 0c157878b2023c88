"""Asking again while a broker is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cometmq.client.sending import RETRIABLE
from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError

T = TypeVar("T")

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0


def is_retriable(error: CometMQError) -> bool:
    """Whether a broker that is back, or less busy, could do what failed."""
    if isinstance(error, RemoteError):
        return error.code in RETRIABLE
    return isinstance(error, NetworkError | NoRoute)


async def patiently(
    what: str,
    patience_s: float,
    ask: Callable[[], Awaitable[T]],
    *,
    before_retry: Callable[[], None] = lambda: None,
    is_worth: Callable[[CometMQError], bool] = is_retriable,
) -> T:
    """Give what ``ask`` gives, asking again until ``patience_s`` seconds after its first failure.

    Args:
        what: what was asked of whom, for the error.
        before_retry: called before each further try.
        is_worth: whether a failure is worth a further try.

    Raises:
        NetworkError: it failed to the end; says ``what``, for how long, and how it failed last.
        CometMQError: as ``ask`` raises what is not worth a further try.
    """
    loop = asyncio.get_running_loop()
    deadline, pause_s = None, PAUSE_S
    while True:
        try:
            return await ask()
        except CometMQError as error:
            if not is_worth(error):
                raise
            now = loop.time()
            deadline = now + patience_s if deadline is None else deadline
            if now >= deadline:
                raise NetworkError(f"{what}: no success in {patience_s:g} s: {error}") from error
        await asyncio.sleep(min(pause_s, deadline - now))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
        before_retry()
