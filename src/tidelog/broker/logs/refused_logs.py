"""Logs of this broker that were not opened, because records in them are lost or bad and no other
replica leads: a finding for each, until one does or the records are back."""

from collections.abc import Callable

from tidelog.core.types import PartitionId
from tidelog.host.findings import Findings
from tidelog.storage.checkpoints import LOG_STARTS, PartitionName
from tidelog.storage.directory_names import directory_of
from tidelog.storage.errors import CorruptSegment, MissingRecords

KIND = "log-refused"


class RefusedLogs:
    """Owned by `Replicas`."""

    __slots__ = ("_findings", "_subjects", "on_refused")

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._subjects: dict[PartitionId, str] = {}
        self.on_refused: Callable[[PartitionId, PartitionName], None] = _tell_nobody
        """Hears of every one, and may hear of it again."""

    def report(self, partition: PartitionId, name: PartitionName, error: CorruptSegment) -> None:
        self._subjects[partition] = subject = directory_of(name)
        text = f"not opened, nobody else leads it: {error}"
        self._findings.report(KIND, subject, text, advice=advice_for(name, error))
        self.on_refused(partition, name)

    def clear(self, partition: PartitionId) -> None:
        """It is opened, or not wanted any more."""
        subject = self._subjects.pop(partition, None)
        if subject is not None:
            self._findings.clear(KIND, subject)


def advice_for(name: PartitionName, error: CorruptSegment) -> str:
    topic, partition = name
    advice = (
        "start the brokers of its other replicas: the records are fetched from them; or put the"
        " file back while this broker is stopped; or stop it and let another replica lead"
        " (tidelog leaders elect --help)"
    )
    if isinstance(error, MissingRecords) and error.position == 0:
        advice += (
            f"; or, to go on without these records, stop this broker and write the line"
            f" `{topic} {partition} {error.end}` into {LOG_STARTS}"
        )
    return advice


def _tell_nobody(_partition: PartitionId, _name: PartitionName) -> None: ...
