"""The committed metadata that a member keeps for its snapshots if no listener lends it an image."""

from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.types import LogEntry


class CommittedImage:
    """A `MetadataListener` that folds what it is told into an image."""

    __slots__ = ("image",)

    def __init__(self) -> None:
        self.image = MetadataImage()

    def records(self) -> tuple[MetadataRecord, ...]:
        return image_records(self.image)

    def on_committed(self, entry: LogEntry) -> None:
        if not entry.control:
            for record in entry.records:
                replay(self.image, record)  # type: ignore[arg-type]  # opaque to the quorum only

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        assert end_offset >= 0, f"a snapshot that ends at {end_offset}"
        self.image = MetadataImage()
        for record in records:
            replay(self.image, record)

    def on_applied(self, offset: int) -> None:
        pass

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        pass

    def on_lost(self, epoch: int) -> None:
        pass
