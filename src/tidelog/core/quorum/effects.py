"""What a QuorumNode wants done. The shell performs effects in the order they are listed.

Ordering duties:
- `PersistState` is on disk (fsync) before anything after it in the list is performed: the
  answers behind it promise what it holds.
- `AppendEntries`, `TruncateTo` and `InstallSnapshot` are visible in the log view before the
  next call into the node. When appended entries or an installed snapshot are durable the
  shell calls `on_durable`.
- `CommitAdvanced` comes after the entries it covers were handed to the log.
"""

from typing import NamedTuple

from tidelog.core.events import QuorumLeaderElected, QuorumRoleChanged
from tidelog.core.quorum.log_view import SnapshotContent
from tidelog.core.quorum.messages import QuorumMessage, SnapshotId
from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import LogEntry


class PersistState(NamedTuple):
    state: QuorumState


class AppendEntries(NamedTuple):
    entries: tuple[LogEntry, ...]


class TruncateTo(NamedTuple):
    offset: int


class InstallSnapshot(NamedTuple):
    """Drop the whole log and start again at the snapshot's end, which is then the log start,
    the log end and the high watermark; the state machine reloads from `content`. Older
    snapshots belong to the dropped log and go with it."""

    snapshot: SnapshotId
    content: SnapshotContent


class Send(NamedTuple):
    target: int
    message: QuorumMessage


class CommitAdvanced(NamedTuple):
    """Entries below `high_watermark` may be applied, in order."""

    high_watermark: int


class LeadershipClaimable(NamedTuple):
    """Everything before this leadership is committed: the state machine may become active."""

    epoch: int
    epoch_start_offset: int


class LeadershipLost(NamedTuple):
    epoch: int


Effect = (
    PersistState
    | AppendEntries
    | TruncateTo
    | InstallSnapshot
    | Send
    | CommitAdvanced
    | LeadershipClaimable
    | LeadershipLost
    | QuorumLeaderElected
    | QuorumRoleChanged
)
