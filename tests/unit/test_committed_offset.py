"""What a node knows to be committed survives its process, and is never cut away (ADR 0033)."""

import logging

import pytest

from support.quorum_cluster import Cluster
from tidelog.core.errors import Error
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import TruncateTo
from tidelog.core.quorum.messages import FetchResponse, SnapshotId
from tidelog.core.quorum.state import QuorumLostLog, QuorumState
from tidelog.core.types import EpochEnd, LogEntry
from tidelog.sim.disk import SimDisk
from tidelog.storage.committed_offset import read_committed_offset, write_committed_offset


def restarted_follower(committed_before):
    """Three entries on its disk; the leader of epoch 2 says where their logs part."""
    host = Cluster((1, 2, 3)).hosts[2]
    host.log.append(tuple(LogEntry(offset, 1, (f"r{offset}",)) for offset in range(3)))
    host.log.sync()
    host.stored = QuorumState(2, 1, None)
    host.committed_before = committed_before
    node = host.boot(0)
    node.tick(0)
    return node


def told_to_cut_at(offset):
    diverging = EpochEnd(1, offset)
    return FetchResponse(Error.NONE, 2, 1, 3, -1, diverging=diverging, last_fetched_epoch=1)


def test_a_restarted_follower_cuts_what_it_does_not_know_to_be_committed():
    node = restarted_follower(committed_before=2)
    assert TruncateTo(2) in node.on_message(1, told_to_cut_at(2), 1)


def test_a_restarted_follower_does_not_cut_what_its_former_life_knew_to_be_committed():
    node = restarted_follower(committed_before=2)
    with pytest.raises(QuorumLostLog, match=r"from offset 1 on.*below 2 is committed"):
        node.on_message(1, told_to_cut_at(1), 1)


@pytest.mark.parametrize(
    ("snapshot", "keeps"),
    [
        (SnapshotId(100, 5), True),
        (SnapshotId(200, 7), True),
        (SnapshotId(99, 5), False),
        (SnapshotId(99, 7), False),
        (SnapshotId(200, 4), False),
    ],
)
def test_a_snapshot_that_ends_earlier_or_in_an_older_epoch_lacks_something(snapshot, keeps):
    assert rules.snapshot_keeps_committed(snapshot, SnapshotId(100, 5)) is keeps


def test_what_was_written_down_is_read_again_and_nothing_is_known_without_it(caplog):
    disk = SimDisk()
    assert read_committed_offset(disk, "committed") == -1
    write_committed_offset(disk, "committed", 4711)
    assert read_committed_offset(disk, "committed") == 4711
    file = disk.open("committed")
    file.write(0, b"what")
    file.close()
    with caplog.at_level(logging.WARNING):
        assert read_committed_offset(disk, "committed") == -1
    assert "committed" in caplog.text
