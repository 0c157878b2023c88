from pathlib import Path

from cometmq.store.files.finding import Finding, Severity


def test_a_finding_says_where_what_and_what_to_do() -> None:
    finding = Finding(Severity.DAMAGE, Path("commitlog/0"), 261, 20, "BODYCRC is wrong", "restore it")
    assert str(finding) == "commitlog/0, byte 261, 20 bytes: BODYCRC is wrong; restore it"
    assert str(finding._replace(position=None, size=None, remedy="")) == "commitlog/0: BODYCRC is wrong"
