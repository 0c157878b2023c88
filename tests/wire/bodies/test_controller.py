from cometmq.wire import bodies


def test_a_sync_state_set_is_written_as_rocketmq_does() -> None:
    found = bodies.SyncStateSet(frozenset({2, 1}), 3)
    assert bodies.encode(found) == b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'
    assert bodies.decode(bodies.SyncStateSet, bodies.encode(found)) == found
    assert bodies.decode(bodies.SyncStateSet, b'{"syncStateSetEpoch":0}') == bodies.SyncStateSet()


def test_the_members_of_an_election_are_read_with_bare_ids() -> None:
    found = bodies.decode(
        bodies.ElectedMembers,
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"127.0.0.1:30911"},"brokerName":"broker-x","cluster":"c"},'
        b'"syncStateSet":[1]}',
    )
    assert found.in_sync == {1}
    assert found.members is not None and found.members.addrs == {1: "127.0.0.1:30911"}


def test_the_epochs_that_a_broker_was_seen_to_answer_are_read_and_written() -> None:
    data = (
        b'{"brokerId":0,"brokerName":"broker-x","clusterName":"DefaultCluster","epochList":'
        b'[{"endOffset":9223372036854775807,"epoch":1,"startOffset":0}],"maxOffset":714}'
    )
    found = bodies.decode(bodies.EpochsOfBroker, data)
    assert found.epochs == [bodies.EpochSpan(1, 0, 2**63 - 1)]
    assert bodies.encode(found) == data


def test_the_replicas_of_a_set_are_read() -> None:
    data = (
        b'{"replicasInfoTable":{"broker-x":{"inSyncReplicas":[{"alive":true,"brokerAddress":"127.0.0.1:30911",'
        b'"brokerId":1,"brokerName":"broker-x"}],"notInSyncReplicas":[],"masterAddress":"127.0.0.1:30911",'
        b'"masterBrokerId":1,"masterEpoch":1,"syncStateSetEpoch":1}}}'
    )
    found = bodies.decode(bodies.SyncStateData, data).sets["broker-x"]
    assert found.in_sync == [bodies.KnownReplica(True, "127.0.0.1:30911", 1, "broker-x")]
    assert (found.master_id, found.master_epoch, found.set_epoch) == (1, 1, 1)


def test_names_are_asked_for_as_a_list() -> None:
    assert bodies.encode_broker_names(["broker-x"]) == b'["broker-x"]'
