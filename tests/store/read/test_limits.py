"""Limits of reads, from the settings."""

import os

from msgspec.structs import replace

from cometmq.store.read.limits import GetLimits
from cometmq.store.settings import StoreSettings


def test_limits_are_those_of_rocketmq_unless_set() -> None:
    limits = GetLimits.of(StoreSettings())
    assert limits[:1] + limits[2:] == (800, 32, 256 * 1024, 8, 64 * 1024)
    assert limits.most_count == 32
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert limits.memory_bytes == memory * 40 // 100
    half = GetLimits.of(replace(StoreSettings(), access_message_in_memory_max_ratio=20))
    assert half.memory_bytes == memory * 20 // 100
