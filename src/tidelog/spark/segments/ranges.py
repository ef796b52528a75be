"""What the driver tells the tasks that read segment files."""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.replica_files import REGION_BYTES, Replica, SegmentFile

if TYPE_CHECKING:
    from tidelog.spark.value_format import ValueFormat


class SegmentRange(NamedTuple):
    """Part of one replica, for one task. `end` is excluded."""

    replica: Replica
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...] = ()
    """The epoch history to believe; that of another replica where this one may be behind."""
    others: tuple[Replica, ...] = ()
    """Replicas with the same records, where the first one proves to be damaged or emptied."""

    @property
    def size(self) -> int:
        return self.end - self.start


class SegmentsPlan(NamedTuple):
    """What every task of a read knows, whatever its ranges are."""

    columns: tuple[str, ...]
    committed: bool = True
    fail_on_data_loss: bool = True
    values: "ValueFormat | None" = None
    region_bytes: int = REGION_BYTES


class ReplicaSegment(NamedTuple):
    """One file, for one task."""

    replica: Replica
    segment: SegmentFile
    is_last: bool
