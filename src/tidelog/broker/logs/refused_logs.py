"""Logs of this broker that were not opened, because records in them are lost or bad and no other
replica leads: a finding for each, until one does."""

from tidelog.core.types import PartitionId
from tidelog.host.findings import Findings
from tidelog.storage.checkpoints import LOG_STARTS, PartitionName
from tidelog.storage.directory_names import directory_of
from tidelog.storage.errors import CorruptSegment, MissingRecords

KIND = "log-refused"


class RefusedLogs:
    """Owned by `Replicas`."""

    __slots__ = ("_findings", "_subjects")

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._subjects: dict[PartitionId, str] = {}

    def report(self, partition: PartitionId, name: PartitionName, error: CorruptSegment) -> None:
        self._subjects[partition] = subject = directory_of(name)
        text = f"not opened, nobody else leads it: {error}"
        self._findings.report(KIND, subject, text, advice=advice_for(name, error))

    def clear(self, partition: PartitionId) -> None:
        """It is opened, or not wanted any more."""
        subject = self._subjects.pop(partition, None)
        if subject is not None:
            self._findings.clear(KIND, subject)


def advice_for(name: PartitionName, error: CorruptSegment) -> str:
    topic, partition = name
    advice = (
        "start the brokers of its other replicas; or put the file back while this broker is"
        " stopped; or let another replica lead (tidelog leaders elect --help)"
    )
    if isinstance(error, MissingRecords) and error.position == 0:
        advice += (
            f"; or, to go on without these records, stop this broker and write the line"
            f" `{topic} {partition} {error.end}` into {LOG_STARTS}"
        )
    return advice
