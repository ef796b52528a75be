"""What the segments of one log share."""

from typing import NamedTuple

from tidelog.host.ports import Disk
from tidelog.storage.config import LogConfig
from tidelog.storage.repairs import Repairs


class SegmentPlace(NamedTuple):
    disk: Disk
    directory: str
    config: LogConfig
    """The one object of the log: what is altered in it counts at the next append."""
    repairs: Repairs
    """Where a segment notes that it made an index anew."""
