from pathlib import Path

from cometmq.store.files.finding import Severity
from cometmq.store.verify.findings import PER_FILE_MAX, Findings


def test_of_many_findings_in_a_file_the_first_are_kept_and_the_rest_counted() -> None:
    findings = Findings()
    for number in range(PER_FILE_MAX + 5):
        findings.damage(Path("a"), number, 1, f"number {number}", "")
    findings.note(Path("b"), "a note")
    kept = list(findings)
    assert len(kept) == PER_FILE_MAX + 2
    assert kept[-2].what == "a note"
    assert str(kept[-1]) == "a: 5 more of the kind"
    assert findings.has(Severity.DAMAGE) and findings.has(Severity.NOTE)
    assert not findings.has(Severity.RECOVERY)
