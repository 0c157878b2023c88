"""Send requests to many queues at once, and retry while a broker is away or busy.

Theory of operation. A lost connection, a timeout, a busy broker and a topic that no name server knows (as
after a restart) may pass: the request is retried for ``retrySeconds``. SYSTEM_ERROR is doubtful: Java's
brokers respond so while they stop, but also to a filter that they do not support. Such a request is retried
for some seconds. Every other error is a refusal and is raised at once: no permission, a malformed filter, an
address at which another server listens, a certificate that is not accepted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError
from cometmq.net.tasks import bounded_map
from cometmq.wire.codes import ResponseCode

T = TypeVar("T")
Item = TypeVar("Item")

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0
DOUBTFUL_S: Final = 5.0
"""How long a request is retried after SYSTEM_ERROR."""
UNDER_WAY_MAX: Final = 64
"""Concurrent requests of ``ask_each``. More make brokers no faster, and time out together."""
PASSING: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
        ResponseCode.SYSTEM_ERROR,
    }
)
"""Response codes after which the same request may succeed."""


def is_retriable(error: CometMQError) -> bool:
    """Check whether the request could succeed once a broker is back, or less busy."""
    if isinstance(error, RemoteError):
        return error.code in PASSING
    return isinstance(error, NetworkError | NoRoute) and error.retriable


def is_doubtful(error: CometMQError) -> bool:
    """Check whether the error leaves open if a retry could succeed."""
    return isinstance(error, RemoteError) and error.code == ResponseCode.SYSTEM_ERROR


async def with_retries(
    what: object,
    retry_s: float,
    ask: Callable[[], Awaitable[T]],
    *,
    before_retry: Callable[[], None] = lambda: None,
    is_worth: Callable[[CometMQError], bool] = is_retriable,
) -> T:
    """Return what ``ask`` returns, retried until ``retry_s`` seconds after its first failure.

    Args:
        what: names request and server in errors, as text.
        before_retry: called before each retry.
        is_worth: whether a failure is worth a retry.

    Raises:
        NetworkError: no try succeeded; names ``what``, the time and the last failure.
        RemoteError: a server refuses the request; names ``what``.
        CometMQError: from ``ask``, if it is not worth a retry.
    """
    loop = asyncio.get_running_loop()
    began, pause_s = None, PAUSE_S
    while True:
        try:
            return await ask()
        except CometMQError as error:
            if not is_worth(error):
                if type(error) is RemoteError:
                    raise RemoteError(error.code, f"{what}: {error.remark}") from error
                raise
            now = loop.time()
            began = now if began is None else began
            most_s = min(retry_s, DOUBTFUL_S) if is_doubtful(error) else retry_s
            if now >= began + most_s:
                raise NetworkError(f"{what}: no success in {most_s:g} s: {error}") from error
        await asyncio.sleep(min(pause_s, began + most_s - now))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
        before_retry()


async def ask_each(ask: Callable[[Item], Awaitable[T]], items: Collection[Item]) -> dict[Item, T]:
    """Call ``ask`` for each item, at most ``UNDER_WAY_MAX`` at a time, and return the results by item.

    The first error is raised, and cancels the other calls.
    """
    return dict(zip(items, await bounded_map(ask, items, UNDER_WAY_MAX), strict=True))
