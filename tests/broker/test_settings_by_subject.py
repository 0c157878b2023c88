import pytest

from cometmq.broker.settings_by_subject import FlowSettings, MetricsSettings, NetworkSettings, PullSettings
from cometmq.errors import SettingsError
from cometmq.metrics.limits import LIMITS, EndpointLimits
from cometmq.net.flow import HIGH_WATER, LOW_WATER
from cometmq.settings.values import settings_from


def test_the_limits_of_the_port_of_metrics_are_settings() -> None:
    assert MetricsSettings().limits == LIMITS._replace(are_settings=True)
    given = {
        "metricsConnectionsMax": "9",
        "metricsWaitingMax": "3",
        "metricsScrapesMax": "2",
        "metricsRequestTimeoutMs": "100",
    }
    found = settings_from(MetricsSettings, given).limits
    assert found == EndpointLimits(9, 3, 2, 100, are_settings=True)


def test_labels_of_metrics_are_checked_at_once() -> None:
    assert MetricsSettings(metrics_label="a:b").labels == {"a": "b"}
    with pytest.raises(SettingsError, match="metricsLabel"):
        MetricsSettings(metrics_label="a")


def test_no_water_mark_may_be_above_the_next_one() -> None:
    zero = FlowSettings(write_buffer_low_water_mark=0, write_buffer_high_water_mark=0)
    assert zero.limits[:2] == (LOW_WATER, HIGH_WATER)
    with pytest.raises(SettingsError, match="writeBufferLowWaterMark = 9, writeBufferHighWaterMark = 8"):
        FlowSettings(write_buffer_low_water_mark=9, write_buffer_high_water_mark=8)


def test_pulls_are_held_as_long_as_they_ask_for_unless_polling_is_short() -> None:
    assert PullSettings(short_polling_time_mills=7).short_polling_ms is None
    assert PullSettings(long_polling_enable=False, short_polling_time_mills=7).short_polling_ms == 7


def test_name_servers_are_separated_by_semicolons() -> None:
    assert NetworkSettings(namesrv_addr="a:1; b:2;").name_servers == ("a:1", "b:2")
