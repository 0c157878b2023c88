import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from cometmq.broker import settings
from cometmq.errors import SettingsError
from cometmq.settings.foreign import DIFFERING, STOPPING, WITHOUT_EFFECT, check, notes_on
from cometmq.wire import settings_text

SHIPPED: Final = (Path(__file__).parent / "shipped_confs.txt").read_text(encoding="utf-8")
"""The settings files in RocketMQ's distribution, without comments; each begins with its path."""
CONFS: Final = dict(re.findall(r"^== (\S+)\n(.*?)(?=^== |\Z)", SHIPPED, re.MULTILINE | re.DOTALL))
REFUSED: Final = {
    "/container/2container-2m-2s/broker-container": {"brokerConfigPaths"},
    "/controller/cluster-3n-independent/": {"controllerDLegerPeers"},
    "/controller/cluster-3n-namesrv-plugin/": {"controllerDLegerPeers", "enableControllerInNamesrv"},
    "/controller/controller-standalone": {"controllerDLegerPeers"},
    "/controller/quick-start/namesrv": {"controllerDLegerPeers", "enableControllerInNamesrv"},
    "/dledger/": {"enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId"},
}


def stopping(values: Mapping[str, object], *ignored: str) -> set[str]:
    """Return the names of the settings that stop a start; each has a line of its own."""
    try:
        check(values, ignored)
    except SettingsError as error:
        return {line.split()[1] for line in str(error).splitlines()}
    return set()


def notes(**values: object) -> list[str]:
    return list(notes_on(values, settings.known_names()))


@pytest.mark.parametrize("path", [path for path in CONFS if not path.endswith("/nameserver.conf")])
def test_each_file_that_rocketmq_ships_is_used_or_refused_for_a_named_reason(path: str) -> None:
    refused = next((names for part, names in REFUSED.items() if part in path), set())
    values = settings_text.decode(CONFS[path].encode())
    assert stopping(values) == refused
    assert "is no setting of" not in "\n".join(notes_on(values, settings.known_names())) or "<!--" in values
    if not refused:
        settings.load(None, values | {"listenPort": "0"})


def test_all_shipped_files_are_here() -> None:
    assert len(CONFS) == 34


@pytest.mark.parametrize("name", STOPPING)
def test_a_setting_that_moves_the_data_or_the_role_stops_the_start_unless_ignored(name: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"^setting {name} = 'other' stops the start: .*; .*--ignore {name}"
    ):
        settings.load(None, {name: "other"})
    assert settings.load(None, {name: "other"}, ignored=[name]).broker.identity.broker_id == 0


@pytest.mark.parametrize(("name", "one"), STOPPING.items())
def test_the_default_of_such_a_setting_stops_nothing_and_is_not_mentioned(
    name: str, one: tuple[tuple[str]]
) -> None:
    for default in one[0]:
        values = {name: default.replace("{root}", "/srv/store"), "storePathRootDir": "/srv/store/"}
        assert stopping(values) == set() and notes(**values) == []


def test_toml_has_the_same_defaults_with_types() -> None:
    assert stopping({"enableDLegerCommitLog": False}) == set()
    assert stopping({"enableDLegerCommitLog": True}) == {"enableDLegerCommitLog"}


def test_each_setting_that_stops_the_start_is_a_line_of_its_own() -> None:
    values = {"storeType": "defaultRocksDB", "timerRocksDBEnable": "true"}
    assert stopping(values) == values.keys()
    assert stopping(values, "storeType") == {"timerRocksDBEnable"}


def test_only_what_stops_a_start_can_be_ignored() -> None:
    with pytest.raises(SettingsError, match="--ignore listenPort: this setting never stops a start"):
        check({}, ["listenPort"])


@pytest.mark.parametrize("name", ["fetchNamesrvAddrByAddressServer", "fetchNameSrvAddrByDnsLookup"])
def test_discovery_of_name_servers_stops_the_start_only_without_namesrv_addr(name: str) -> None:
    assert stopping({name: "true"}) == {name}
    assert stopping({name: "true", "namesrvAddr": " ; "}) == {name}
    assert stopping({name: "true", "namesrvAddr": "127.0.0.1:9876"}) == set()


@pytest.mark.parametrize(("name", "one"), DIFFERING.items())
def test_a_setting_that_behaves_otherwise_is_named_with_what_differs(name: str, one: tuple[str, str]) -> None:
    default, differs = one[:2]
    assert notes(**{name: default}) == []
    (note,) = notes(**{name: "other"})
    assert note.startswith(f"{name} = other: {differs}")


def test_what_weakens_confirmed_sends_is_said_loudly() -> None:
    loud = {name for name in DIFFERING if "CONFIRMED SEND" in notes(**{name: "other"})[0]}
    assert loud == {"enableAutoInSyncReplicas", "totalReplicas", "asyncLearner"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("fileReservedTimes", "fileReservedTime"),
        ("filereservedtime", "fileReservedTime"),
        ("storetype", "storeType"),
        ("sendMessageThreadPoolNum", "sendMessageThreadPoolNums"),
        ("traceTopicEnabled", "traceTopicEnable"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest_known_one(name: str, meant: str) -> None:
    (note,) = notes(**{name: "1"})
    assert note.endswith(f": did you mean {meant}?")


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    assert notes(colour="red") == ["colour is no setting of RocketMQ 5.5.0 or CometMQ"]


def test_names_without_effect_share_a_line() -> None:
    (note,) = notes(sendMessageThreadPoolNums=1, adminBrokerThreadPoolNums=1)
    assert note == "settings that have no effect here: adminBrokerThreadPoolNums, sendMessageThreadPoolNums"


def test_no_name_is_in_two_places() -> None:
    names = [*STOPPING, *DIFFERING, *WITHOUT_EFFECT]
    assert len(names) == len(set(names))
    assert settings.known_names().isdisjoint([*STOPPING, *DIFFERING])
