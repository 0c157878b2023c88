"""What the tests of the kernels share."""

import pytest

from cometmq import kernels
from cometmq.kernels import plain
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.rows import PullOps
from cometmq.kernels.queries.rows import QueryOps


@pytest.fixture(scope="session")
def compiled() -> Ops:
    """Provide the compiled operations; the first time on a machine they are compiled here."""
    return kernels.load()


@pytest.fixture(params=["plain", "compiled"], scope="session")
def ops(request: pytest.FixtureRequest, compiled: Ops) -> Ops:
    """Provide the plain operations, then the compiled ones."""
    return plain if request.param == "plain" else compiled


@pytest.fixture(scope="session")
def pull_ops(ops: Ops) -> PullOps:
    """Provide the plain operations on pulls, then the compiled ones."""
    return ops.pulls


@pytest.fixture(scope="session")
def query_ops(ops: Ops) -> QueryOps:
    """Provide the plain operations on queries, then the compiled ones."""
    return ops.queries
