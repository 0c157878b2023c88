"""The blocking clients have the methods, parameters and documentation of the asyncio ones."""

import asyncio
import inspect
import threading
from typing import Any, Self

import pytest

from cometmq import blocking, client
from cometmq.blocking import _Blocking, _in_loop, _waiting
from cometmq.client.loop_thread import CLOSED
from cometmq.errors import NetworkError

KINDS = [getattr(blocking, name) for name in blocking.__all__]
OWN = {"run", "start", "stop", "messages", "on", "subscribe", "unsubscribe", "send_many", "assign"}
"""Methods that differ: a ``with`` statement starts a consumer, and the others are written out."""
STEPS = {"send_half", "end_transaction", "send_in_transaction"}
FOR_TOOLS = {
    "pull_stored",
    "pull_records",
    "start_pull",
    "pulled",
    "topic_stats",
    "topic_stats_body",
    "first_store_time",
    "record_sizes",
}


def asyncio_kind(kind: type) -> type:
    found: type = getattr(client, kind.__name__)
    return found


def public_methods(kind: type) -> dict[str, Any]:
    return {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_method_of_an_asyncio_client_has_a_blocking_one(kind: type) -> None:
    missing = public_methods(asyncio_kind(kind)).keys() - public_methods(kind).keys()
    assert missing <= OWN | STEPS | FOR_TOOLS


@pytest.mark.parametrize("kind", KINDS)
def test_the_methods_have_the_same_signature_and_documentation(kind: type) -> None:
    originals = public_methods(asyncio_kind(kind))
    same = {name: method for name, method in public_methods(kind).items() if name not in OWN | STEPS}
    assert same
    for name, method in same.items():
        assert inspect.signature(method) == inspect.signature(originals[name])
        assert method.__doc__ == originals[name].__doc__
        assert not inspect.iscoroutinefunction(method)


class Asyncio:
    """An asyncio client that says in which thread it runs."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def thread(self, *, after_s: float = 0.0) -> str:
        """Return the name of the running thread."""
        await asyncio.sleep(after_s)
        return threading.current_thread().name

    async def fail(self, text: str) -> None:
        raise ValueError(text)

    def loop_name(self, prefix: str) -> str:
        return f"{prefix} {threading.current_thread().name} {asyncio.get_running_loop().is_running()}"


class Threaded(_Blocking[Asyncio]):
    thread = _waiting(Asyncio.thread)
    fail = _waiting(Asyncio.fail)
    loop_name = _in_loop(Asyncio.loop_name)


def test_a_method_runs_in_the_loop_and_returns_or_raises_in_the_caller() -> None:
    with Threaded(Asyncio()) as threaded:
        assert threaded.thread(after_s=0.001) == "cometmq"
        assert threaded.loop_name("in") == "in cometmq True"
        with pytest.raises(ValueError, match="no"):
            threaded.fail("no")


def test_outside_its_with_statement_a_method_raises() -> None:
    threaded = Threaded(Asyncio())
    with pytest.raises(NetworkError, match=CLOSED):
        threaded.thread()
    with pytest.raises(NetworkError, match=CLOSED):
        threaded.loop_name("in")
