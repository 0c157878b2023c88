"""Tests that share what is slow to make: in one process, if pytest-xdist runs several.

xdist has a marker for that, ``xdist_group``, which it loses with pytest 9.2 or later.
"""

import re
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

JUDGED = [pytest.param("rocketmq", marks=pytest.mark.interop_long), pytest.param("cometmq")]
"""Products of a test that starts a broker of its own: that RocketMQ's passes judges the test, not CometMQ."""


def in_group(parameter: Any, group: str, *, is_long: bool = False) -> Any:
    """Return a parameter of a shared fixture, with its group as its id: ``@group``.

    Args:
        is_long: whether its tests run in ``make interop-long`` only.
    """
    name = f"{parameter}_{group}" if isinstance(parameter, str) else group
    return pytest.param(parameter, id=f"@{name}", marks=[pytest.mark.interop_long] if is_long else [])


class OneProcessPerGroup(LoadScopeScheduling):  # type: ignore[misc] # xdist is not typed
    """Hands out tests so that those with the same ``@group`` among their parameters run in one process.

    A process gets its next tests as late as it can: when it begins the last that it has.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = re.search(r"@\w+", nodeid)
        return group[0] if group else nodeid

    def _reschedule(self, node: Any) -> None:
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < len(("running", "next")):
            super()._reschedule(node)
