"""What can be set: RocketMQ's names and defaults; each limit is named when it is broken."""

import msgspec
import pytest

from cometmq.errors import SettingsError
from cometmq.format.checksum import Crc
from cometmq.store.settings import FlushDiskType, StoreSettings, from_properties, known_names

INT_MAX = 2**31 - 1
LIMITS = {
    "mappedFileSizeCommitLog": (4_096, INT_MAX),
    "mappedFileSizeConsumeQueueExt": (256, INT_MAX),
    "mappedFileSizeConsumeQueue": (20, 2_147_483_640),
    "maxHashSlotNum": (1, 100_000_000),
    "maxIndexNum": (2, 100_000_000),
    "syncFlushTimeout": (1, None),
    "fileReservedTime": (0, 1_000_000),
    "diskMaxUsedSpaceRatio": (1, 100),
    "diskSpaceCleanForciblyRatio": (1, 100),
    "diskSpaceWarningLevelRatio": (1, 100),
    "cleanResourceInterval": (1, None),
    "deleteFileBatchMax": (1, None),
    "deleteCommitLogFilesInterval": (0, None),
    "deleteConsumeQueueFilesInterval": (0, None),
    "flushIntervalCommitLog": (1, None),
    "flushCommitLogLeastPages": (0, None),
    "flushCommitLogThoroughInterval": (1, None),
    "transientStorePoolSize": (1, 1_000),
    "commitIntervalCommitLog": (1, None),
    "commitCommitLogLeastPages": (0, None),
    "commitCommitLogThoroughInterval": (1, None),
    "flushLeastPagesWhenWarmMapedFile": (1, None),
    "flushIntervalConsumeQueue": (1, None),
    "flushConsumeQueueLeastPages": (0, None),
    "flushConsumeQueueThoroughInterval": (1, None),
    "maxMessageSize": (1, 16 * 1024 * 1024),
    "osPageCacheBusyTimeOutMills": (1, None),
    "accessMessageInMemoryMaxRatio": (1, 100),
    "maxTransferCountOnMessageInMemory": (1, None),
    "maxTransferBytesOnMessageInMemory": (1, None),
    "maxTransferCountOnMessageInDisk": (1, None),
    "maxTransferBytesOnMessageInDisk": (1, None),
    "maxFilterMessageSize": (1, None),
    "maxMsgsNumBatch": (1, None),
    "timerPrecisionMs": (100, 1_000),
    "timerMaxDelaySec": (1, None),
    "timerFlushIntervalMs": (1, None),
    "mappedFileSizeTimerLog": (4_096, INT_MAX),
}
WITHOUT_LIMIT = "timerRollWindowSlot"  # out of range it means the most, as in RocketMQ
BROKEN = [(name, low - 1, low) for name, (low, _) in LIMITS.items()] + [
    (name, high + 1, high) for name, (_, high) in LIMITS.items() if high is not None
]


def test_every_number_that_can_be_set_has_a_limit_here() -> None:
    defaults = msgspec.to_builtins(StoreSettings())
    numbers = {
        name for name, value in defaults.items() if isinstance(value, int) and not isinstance(value, bool)
    }
    assert numbers == LIMITS.keys() | {WITHOUT_LIMIT}


@pytest.mark.parametrize(("name", "value", "limit"), BROKEN)
def test_a_number_beyond_its_limit_is_refused_with_name_value_and_limit(
    name: str, value: int, limit: int
) -> None:
    with pytest.raises(SettingsError, match=rf"setting {name} = '{value}': .*\b{limit}\b"):
        from_properties({name: str(value)})


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, ends in LIMITS.items() for value in ends if value is not None]
)
def test_a_number_at_its_limit_is_taken(name: str, value: int) -> None:
    assert msgspec.to_builtins(from_properties({name: str(value)}))[name] == value


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("maxIndexNum", "many", "allowed: a whole number from 2 to 100000000"),
        ("maxIndexNum", "1.5", "allowed: a whole number"),
        ("maxIndexNum", "", "allowed: a whole number"),
        ("messageIndexEnable", "yes", "allowed: true, false"),
        ("flushDiskType", "SYNC", "allowed: ASYNC_FLUSH, SYNC_FLUSH"),
    ],
)
def test_what_is_no_value_of_its_type_is_refused_with_name_and_value(
    name: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=rf"setting {name} = '{value}': {said}"):
        from_properties({name: value})


def test_texts_of_a_file_become_values() -> None:
    settings = from_properties(
        {"flushDiskType": "SYNC_FLUSH", "messageIndexEnable": "false", "maxIndexNum": "50"}
    )
    assert settings.flush_disk_type is FlushDiskType.SYNC_FLUSH and settings.sync_flush
    assert settings.message_index_enable is False
    assert settings.max_index_num == 50


def test_names_that_are_not_the_stores_are_left() -> None:
    assert from_properties({"brokerName": "a", "no.such": 1}) == StoreSettings()
    assert "mappedFileSizeCommitLog" in known_names() and "brokerName" not in known_names()


def test_the_property_crc_is_not_asked_of_records_that_are_stored_without_it() -> None:
    both = {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}
    assert from_properties(both).crc is Crc.RECORD
    assert from_properties({"enabledAppendPropCRC": "true"}).crc is Crc.BODY
    with pytest.raises(SettingsError, match="forceVerifyPropCRC = true without enabledAppendPropCRC"):
        from_properties({"forceVerifyPropCRC": "true"})


def test_the_defaults_are_rocketmqs() -> None:
    settings = StoreSettings()
    assert (settings.mapped_file_size_commit_log, settings.queue_file_size) == (1 << 30, 6_000_000)
    assert (settings.max_hash_slot_num, settings.max_index_num) == (5_000_000, 20_000_000)
    assert not settings.sync_flush


@pytest.mark.parametrize(
    ("size", "rounded"),
    [(20, 20), (21, 40), (399, 400), (400, 400), (2_147_483_621, 2_147_483_640)],
)
def test_a_queue_file_holds_whole_entries(size: int, rounded: int) -> None:
    assert from_properties({"mappedFileSizeConsumeQueue": size}).queue_file_size == rounded


@pytest.mark.parametrize("hours", ["04", "4", "04;16", " 00 ; 23;", "7;8;9"])
def test_hours_are_a_list(hours: str) -> None:
    assert from_properties({"deleteWhen": hours}).delete_when == hours


@pytest.mark.parametrize("hours", ["", "24", "4,5", "noon", "-1", ";", "04:30"])
def test_what_is_no_hour_is_refused(hours: str) -> None:
    with pytest.raises(SettingsError, match=r"deleteWhen = .*allowed: values such as 04, 04;16"):
        from_properties({"deleteWhen": hours})


def test_the_pool_cannot_keep_what_sync_flush_promises() -> None:
    with pytest.raises(
        SettingsError, match="transientStorePoolEnable = true with flushDiskType = SYNC_FLUSH"
    ):
        from_properties({"flushDiskType": "SYNC_FLUSH", "transientStorePoolEnable": "true"})


@pytest.mark.parametrize(("slots", "window"), [(2, 2), (500_000, 500_000), (1, 604_740), (604_741, 604_740)])
def test_a_roll_window_out_of_range_is_the_widest(slots: int, window: int) -> None:
    assert from_properties({"timerRollWindowSlot": str(slots)}).timer_roll_window == window


def test_a_precision_that_rocketmq_does_not_know_is_refused() -> None:
    with pytest.raises(SettingsError, match="timerPrecisionMs = 300: use one of 100, 200, 500, 1000"):
        from_properties({"timerPrecisionMs": "300"})
