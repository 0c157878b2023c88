"""Ask brokers: so many things at once, and again while one is away or busy.

Theory of operation. What failed may pass, or it may not. A lost connection, a timeout, a busy broker and a
topic that no name server knows (as after a restart) may pass: the request is sent again for
``retrySeconds``. SYSTEM_ERROR says nothing: Java's brokers answer so while they stop, but also to a filter
that they do not support. Such a request is sent again for some seconds. All else is a refusal, and is
raised at once: no permission, a filter that cannot be read, an address at which something else listens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final, TypeVar

from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError, WrongProtocol
from cometmq.wire.codes import ResponseCode

T = TypeVar("T")
Item = TypeVar("Item")

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0
DOUBTFUL_S: Final = 5.0
"""How long a request is sent again that is answered with SYSTEM_ERROR."""
UNDER_WAY_MAX: Final = 64
"""Requests that ``ask_each`` has under way. More make brokers no faster, and time out together."""
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
"""Answers after which the same request may succeed."""


def is_retriable(error: CometMQError) -> bool:
    """Whether a broker that is back, or less busy, could do what failed."""
    if isinstance(error, RemoteError):
        return error.code in PASSING
    return isinstance(error, NetworkError | NoRoute) and not isinstance(error, WrongProtocol)


def is_doubtful(error: CometMQError) -> bool:
    """Whether nothing is known of why it failed."""
    return isinstance(error, RemoteError) and error.code == ResponseCode.SYSTEM_ERROR


async def patiently(
    what: str,
    patience_s: float,
    ask: Callable[[], Awaitable[T]],
    *,
    before_retry: Callable[[], None] = lambda: None,
    is_worth: Callable[[CometMQError], bool] = is_retriable,
) -> T:
    """Return what ``ask`` returns, asking again until ``patience_s`` seconds after its first failure.

    Args:
        what: what was asked of whom, for the error.
        before_retry: called before each further try.
        is_worth: whether a failure is worth a further try.

    Raises:
        NetworkError: it failed to the end; says ``what``, for how long, and how it failed last.
        RemoteError: a server refused; says ``what``.
        CometMQError: as ``ask`` raises what is not worth a further try.
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
            most_s = min(patience_s, DOUBTFUL_S) if is_doubtful(error) else patience_s
            if now >= began + most_s:
                raise NetworkError(f"{what}: no success in {most_s:g} s: {error}") from error
        await asyncio.sleep(min(pause_s, began + most_s - now))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
        before_retry()


async def ask_each(ask: Callable[[Item], Awaitable[T]], items: Collection[Item]) -> dict[Item, T]:
    """Return the answer to each item, at most ``UNDER_WAY_MAX`` of which are asked about at a time.

    Raises what ``ask`` raises first; the others are given up then.
    """
    answers: dict[Item, T] = {}

    async def work(left: Iterator[Item]) -> None:
        for item in left:
            answers[item] = await ask(item)

    left = iter(items)
    workers = [asyncio.create_task(work(left)) for _ in range(min(len(items), UNDER_WAY_MAX))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return {item: answers[item] for item in items}
