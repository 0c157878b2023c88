import msgspec
import pytest

from cometmq.wire.headers.controller import (
    AlterSyncStateSetHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdHeader,
    ControllerMetadataHeader,
    ElectMasterHeader,
    MasterHeader,
    NextBrokerIdHeader,
    NextBrokerIdResponseHeader,
    RegisterAtControllerHeader,
)
from cometmq.wire.headers.fields import Header, fields, parse, type_name


@pytest.mark.parametrize(
    ("header", "java_names"),
    [
        (AlterSyncStateSetHeader, ["AlterSyncStateSetRequestHeader"]),
        (AlterSyncStateSetResponseHeader, ["AlterSyncStateSetResponseHeader"]),
        (ApplyBrokerIdHeader, ["ApplyBrokerIdRequestHeader"]),
        (ControllerMetadataHeader, ["GetMetaDataResponseHeader"]),
        (ElectMasterHeader, ["ElectMasterRequestHeader"]),
        (NextBrokerIdHeader, ["GetNextBrokerIdRequestHeader"]),
        (NextBrokerIdResponseHeader, ["GetNextBrokerIdResponseHeader"]),
        (RegisterAtControllerHeader, ["RegisterBrokerToControllerRequestHeader"]),
        (
            MasterHeader,
            [
                "ElectMasterResponseHeader",
                "RegisterBrokerToControllerResponseHeader",
                "NotifyBrokerRoleChangedRequestHeader",
            ],
        ),
    ],
)
def test_fields_have_the_names_and_types_of_the_java_classes(
    header: type[Header], java_names: list[str], java_headers: dict[str, dict[str, tuple[str, bool]]]
) -> None:
    """Which of them may be missing, Java's classes mostly do not say."""
    ours = {known.encode_name: type_name(known.type) for known in msgspec.structs.fields(header)}
    for name in java_names:
        theirs = {field: java_type for field, (java_type, _) in java_headers[name].items()}
        assert ours.items() <= theirs.items(), name


def test_the_answer_about_replicas_lacks_only_the_version_of_the_set(
    java_headers: dict[str, dict[str, tuple[str, bool]]],
) -> None:
    ours = {known.encode_name for known in msgspec.structs.fields(MasterHeader)}
    assert ours - java_headers["GetReplicaInfoResponseHeader"].keys() == {"syncStateSetEpoch"}


def test_an_answer_of_a_set_without_master_is_read() -> None:
    assert parse(MasterHeader, {"clusterName": "c", "brokerName": "b"}) == MasterHeader()
    assert parse(MasterHeader, {"masterEpoch": "4"}) == MasterHeader(epoch=4)


def test_what_a_controller_was_seen_to_answer_is_read() -> None:
    answer = {
        "group": "group1",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": "127.0.0.1:28301",
        "isLeader": "true",
        "peers": "n0:127.0.0.1:28301;",
    }
    header = parse(ControllerMetadataHeader, answer)
    assert header.is_leader and header.leader_address == "127.0.0.1:28301"
    assert fields(header) == answer
