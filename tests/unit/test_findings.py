"""A problem that lasts is told once when it begins and once when it ends."""

from tidelog.core.events import FindingCleared, FindingRaised
from tidelog.host.findings import Finding, Findings


def test_a_finding_is_told_when_it_begins_and_when_it_ends_and_not_in_between():
    told, now = [], iter([1000, 2000])
    findings = Findings(told.append, lambda: next(now))

    findings.report("disk-full", "/data", "0 bytes free", advice="free some space")
    findings.report("disk-full", "/data", "still 0 bytes free", advice="free some space")
    assert findings.all() == (
        Finding("disk-full", "/data", "still 0 bytes free", "free some space", 1000),
    )
    findings.clear("disk-full", "/data")
    findings.clear("disk-full", "/data")

    assert findings.all() == ()
    assert told == [
        FindingRaised("disk-full", "/data", "0 bytes free"),
        FindingCleared("disk-full", "/data"),
    ]


def test_findings_of_one_kind_about_two_subjects_are_two():
    findings = Findings(lambda _: None, lambda: 0)

    findings.report("follower-stalled", "orders-0", "broker 2 makes no progress")
    findings.report("follower-stalled", "orders-1", "broker 3 makes no progress")
    findings.clear("follower-stalled", "orders-0")

    assert [each.subject for each in findings.all()] == ["orders-1"]
