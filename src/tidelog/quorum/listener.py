"""The interface of a listener: it gets what the metadata quorum committed."""

from typing import Protocol

from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.types import LogEntry


class MetadataListener(Protocol):
    """Told on the event loop, synchronously, in this order: entries, then `on_applied`."""

    def on_committed(self, entry: LogEntry) -> None:
        """Every committed entry, in order, once; control entries too."""
        ...

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        """Start over: this is everything below `end_offset`."""
        ...

    def on_applied(self, offset: int) -> None:
        """A burst is over: everything below `offset` was told."""
        ...

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        """This node leads, and every committed entry was told: it may be active controller. Its
        first record will stand at `next_offset`."""
        ...

    def on_lost(self, epoch: int) -> None:
        """This node does not lead any more; may come without an `on_claimable` before it."""
        ...
