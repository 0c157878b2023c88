from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.metrics.limits import LIMITS as ENDPOINT_LIMITS
from cometmq.metrics.limits import EndpointLimits
from cometmq.namesrv.settings import DIFFERING, WITHOUT_EFFECT, NameServerSettings, load
from cometmq.settings.foreign import STOPPING
from cometmq.wire.bodies.body import LIMITS


def test_nothing_given_means_the_defaults() -> None:
    assert load(None, {}) == NameServerSettings()
    assert load(None, {}).body_limits == LIMITS


def test_a_namesrv_conf_is_read_and_options_come_first(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(
        "listenPort = 19876\nsupportActingMaster=true\nkvConfigPath=kv.json\nrequestBodyBytesMax=2048\n"
    )
    found = load(file, {"listenPort": "0"})
    assert (found.listen_port, found.support_acting_master, found.kv_config_path) == (0, True, "kv.json")
    assert found.body_limits.usual_bytes == 2048


def test_settings_that_are_not_honoured_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "namesrv.toml"
    file.write_text("clusterTest = true\nenableTopicList = true\ndefaultThreadPoolNums = 8\nlistenPrt = 1\n")
    load(file, {})
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "clusterTest = true: topics that are not here are not looked up elsewhere",
        "listenPrt is no setting of RocketMQ 5.5.0 or CometMQ: did you mean listenPort?",
        "settings that have no effect here: defaultThreadPoolNums",
    ]


def test_a_controller_in_the_name_server_stops_the_start() -> None:
    values = {"enableControllerInNamesrv": "true"}
    with pytest.raises(SettingsError, match="enableControllerInNamesrv = 'true' stops the start"):
        load(None, values)
    assert load(None, values, ignored=list(values)) == NameServerSettings()


def test_a_value_of_no_use_is_refused_with_those_allowed() -> None:
    with pytest.raises(SettingsError, match="setting supportActingMaster = 'maybe': allowed: true, false"):
        load(None, {"supportActingMaster": "maybe"})


def test_no_name_is_in_two_places() -> None:
    names = [*STOPPING, *DIFFERING, *WITHOUT_EFFECT, *NameServerSettings.__struct_encode_fields__]
    assert len(names) == len(set(names))


def test_how_many_queues_and_topics_there_may_be_are_settings() -> None:
    limits = load(None, {"topicQueuesMax": "10", "routeQueuesMax": 20, "routeTopicsMax": 30}).body_limits
    assert (limits.topic_queues, limits.route_queues, limits.route_topics) == (10, 20, 30)
    with pytest.raises(SettingsError, match="topicQueuesMax"):
        load(None, {"topicQueuesMax": 65_536})


def test_the_limits_of_the_port_of_metrics_are_settings() -> None:
    assert load(None, {}).metrics_limits == ENDPOINT_LIMITS._replace(are_settings=True)
    given = {
        "metricsConnectionsMax": "9",
        "metricsWaitingMax": 3,
        "metricsScrapesMax": "2",
        "metricsRequestTimeoutMs": "100",
    }
    assert load(None, given).metrics_limits == EndpointLimits(9, 3, 2, 100, are_settings=True)
