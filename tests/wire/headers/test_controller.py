import msgspec
import pytest

from cometmq.wire import headers as h


@pytest.mark.parametrize(
    ("header", "java_names"),
    [
        (h.AlterSyncStateSetHeader, ["AlterSyncStateSetRequestHeader"]),
        (h.AlterSyncStateSetResponseHeader, ["AlterSyncStateSetResponseHeader"]),
        (h.ApplyBrokerIdHeader, ["ApplyBrokerIdRequestHeader"]),
        (h.ControllerMetadataHeader, ["GetMetaDataResponseHeader"]),
        (h.ElectMasterHeader, ["ElectMasterRequestHeader"]),
        (h.NextBrokerIdHeader, ["GetNextBrokerIdRequestHeader"]),
        (h.NextBrokerIdResponseHeader, ["GetNextBrokerIdResponseHeader"]),
        (h.RegisterAtControllerHeader, ["RegisterBrokerToControllerRequestHeader"]),
        (
            h.MasterHeader,
            [
                "ElectMasterResponseHeader",
                "RegisterBrokerToControllerResponseHeader",
                "NotifyBrokerRoleChangedRequestHeader",
            ],
        ),
    ],
)
def test_fields_have_the_names_and_types_of_the_java_classes(
    header: type[h.Header], java_names: list[str], java_headers: dict[str, dict[str, tuple[str, bool]]]
) -> None:
    """Which of them may be missing, Java's classes mostly do not say."""
    ours = {known.encode_name: h.type_name(known.type) for known in msgspec.structs.fields(header)}
    for name in java_names:
        theirs = {field: java_type for field, (java_type, _) in java_headers[name].items()}
        assert ours.items() <= theirs.items(), name


def test_the_answer_about_replicas_lacks_only_the_version_of_the_set(
    java_headers: dict[str, dict[str, tuple[str, bool]]],
) -> None:
    ours = {known.encode_name for known in msgspec.structs.fields(h.MasterHeader)}
    assert ours - java_headers["GetReplicaInfoResponseHeader"].keys() == {"syncStateSetEpoch"}


def test_an_answer_of_a_set_without_master_is_read() -> None:
    assert h.parse(h.MasterHeader, {"clusterName": "c", "brokerName": "b"}) == h.MasterHeader()
    assert h.parse(h.MasterHeader, {"masterEpoch": "4"}) == h.MasterHeader(epoch=4)


def test_what_a_controller_was_seen_to_answer_is_read() -> None:
    answer = {
        "group": "group1",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": "127.0.0.1:28301",
        "isLeader": "true",
        "peers": "n0:127.0.0.1:28301;",
    }
    header = h.parse(h.ControllerMetadataHeader, answer)
    assert header.is_leader and header.leader_address == "127.0.0.1:28301"
    assert h.fields(header) == answer
