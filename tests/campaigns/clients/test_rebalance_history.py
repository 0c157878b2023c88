from tests.campaigns.clients.rebalance_history import Kind, Size, draw


def test_a_history_is_its_seeds_and_always_has_members() -> None:
    size = Size(members=3, steps=30)
    assert draw(1, size) == draw(1, size) != draw(2, size)
    for seed in range(50):
        members = size.members
        for step in draw(seed, size):
            assert 0 <= step.choice < members
            members += {Kind.JOIN: 1, Kind.LEAVE: -1, Kind.CRASH: -1}.get(step.kind, 0)
            assert 1 <= members <= size.members
