from pathlib import Path

from tests.replication.controller.parts import membership_of

from cometmq.replication.controller.life import MasterNews


def test_the_master_is_who_has_the_masters_id(tmp_path: Path) -> None:
    assert membership_of(tmp_path, MasterNews(1, "a:1", 1), own_id=1)[0].is_master
    assert not membership_of(tmp_path, MasterNews(1, "a:1", 1), own_id=2)[0].is_master
