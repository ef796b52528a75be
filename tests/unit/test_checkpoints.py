"""Small files: what is in them, what is refused, and that they are replaced whole."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.quorum.messages import VoterKey
from tidelog.core.replication.producers import AppendedBatch, ProducerEntry
from tidelog.sim.disk import SimDisk
from tidelog.storage import (
    CorruptFile,
    ForeignDirectory,
    NoSpace,
    NotFormatted,
    clean_shutdown,
    producer_snapshots,
)
from tidelog.storage.checkpoints import read_epochs, read_offsets, write_epochs, write_offsets
from tidelog.storage.guarded_disk import guard
from tidelog.storage.meta_properties import (
    MetaProperties,
    format_directory,
    read_meta_properties,
    require_owner,
)
from tidelog.storage.partition_metadata import read_topic_id, write_topic_id
from tidelog.storage.quorum_state_file import (
    StoredQuorumState,
    read_quorum_state,
    write_quorum_state,
)
from tidelog.storage.uuids import parse_uuid, uuid_text


def put(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, content)


def test_offsets_are_written_as_kafka_writes_them() -> None:
    disk = SimDisk()
    write_offsets(disk, "c", {("orders", 0): 1500, ("with-dash", 11): 0})
    assert disk.files()["c"] == b"0\n2\norders 0 1500\nwith-dash 11 0\n"
    assert read_offsets(disk, "c") == {("orders", 0): 1500, ("with-dash", 11): 0}


def test_absent_and_empty_checkpoints_have_no_entries() -> None:
    disk = SimDisk()
    assert read_offsets(disk, "c") == {}
    put(disk, "c", b"")
    assert read_offsets(disk, "c") == {}
    assert read_epochs(disk, "c") == []


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"1\n0\n", "line 1"),
        (b"\n", "line 1"),
        (b"0", "line 1"),
        (b"0\n", "line 2"),
        (b"0\n1\n", "line 2"),
        (b"0\nx\na 0 1\n", "line 2"),
        (b"0\n2\na 0 1\n", "line 2"),
        (b"0\n1\na 0 1\nb 0 1\n", "line 2"),
        (b"0\n1\na 0\n", "line 3"),
        (b"0\n1\na 0 -1\n", "line 3"),
        (b"0\n1\na 0 1_0\n", "line 3"),
        (b"0\n1\na 0 99999999999999999999\n", "line 3"),
        (b"0\n1\n 0 1\n", "line 3"),
        (b"0\n2\na 0 1\na 0 2\n", "line 4"),
        (b"0\n1\na 0 1", "line 3"),
        (b"0\n1\na 0 \xff\n", "line 3"),
        (bytes(20), "line 1"),
    ],
)
def test_a_checkpoint_that_is_not_exactly_right_names_the_line(content: bytes, where: str) -> None:
    disk = SimDisk()
    put(disk, "c", content)
    with pytest.raises(CorruptFile) as caught:
        read_offsets(disk, "c")
    assert (caught.value.path, caught.value.where) == ("c", where)


@pytest.mark.parametrize(
    "content", [b"0\n2\n3 5\n2 9\n", b"0\n2\n3 5\n4 5\n", b"0\n1\n3\n", b"0\n1\n3 5 7\n"]
)
def test_an_epoch_history_must_increase(content: bytes) -> None:
    disk = SimDisk()
    put(disk, "e", content)
    with pytest.raises(CorruptFile):
        read_epochs(disk, "e")


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=8))
def test_epochs_come_back_as_they_were_written(steps: list[tuple[int, int]]) -> None:
    entries, epoch, start = [], 0, 0
    for epoch_step, start_step in steps:
        epoch, start = epoch + epoch_step, start + start_step
        entries.append((epoch, start))
    disk = SimDisk()
    write_epochs(disk, "e", entries)
    assert read_epochs(disk, "e") == entries


@given(st.binary(max_size=60))
def test_no_bytes_make_a_checkpoint_raise_anything_else(content: bytes) -> None:
    disk = SimDisk()
    put(disk, "c", content)
    for read in (read_offsets, read_epochs, read_topic_id, read_quorum_state):
        try:
            read(disk, "c")
        except CorruptFile as error:
            assert error.path == "c"  # noqa: PT017 - most bytes are refused, a few are right


def test_a_full_disk_leaves_the_old_checkpoint() -> None:
    disk = SimDisk()
    guarded = guard(disk)
    write_offsets(guarded, "c", {("a", 0): 1})
    for partial_bytes in (0, 3):
        disk.inject("write", error=errno.ENOSPC, partial_bytes=partial_bytes)
        with pytest.raises(NoSpace, match=r"c\.tmp"):
            write_offsets(guarded, "c", {("a", 0): 2})
        assert read_offsets(guarded, "c") == {("a", 0): 1}
        assert disk.list("") == ["c"]
    write_offsets(guarded, "c", {("a", 0): 2})
    assert read_offsets(guarded, "c") == {("a", 0): 2}


def test_after_any_power_loss_there_is_the_old_content_or_the_new() -> None:
    disk = SimDisk()
    write_offsets(disk, "c", {("a", 0): 1})
    write_offsets(disk, "c", {("a", 0): 2})
    assert read_offsets(disk.after_power_loss(()), "c") == {("a", 0): 2}


def entry(producer_id: int, *batches: AppendedBatch, open_since: int = -1) -> ProducerEntry:
    made = ProducerEntry(producer_id, 3)
    made.batches.extend(batches)
    made.current_txn_first_offset = open_since
    made.coordinator_epoch = 2
    made.last_timestamp = batches[-1].timestamp if batches else 77
    return made


def test_a_snapshot_keeps_every_remembered_batch_of_every_producer() -> None:
    wrapped = AppendedBatch((1 << 31) - 2, 1, 40, 43, 500)
    entries = [
        entry(1, AppendedBatch(0, 4, 10, 14, 99), AppendedBatch(5, 5, 20, 20, 100)),
        entry(2, wrapped, open_since=40),
        entry(3),
    ]
    disk = SimDisk()
    producer_snapshots.write_snapshot(disk, "s", entries)
    content = disk.files()["s"]
    assert len(content) == 10 + 4 * 46
    assert content[:2] == b"\x00\x01"
    loaded = producer_snapshots.read_snapshot(disk, "s")
    assert [list(e.batches) for e in loaded] == [list(e.batches) for e in entries]
    assert [e.current_txn_first_offset for e in loaded] == [-1, 40, -1]
    assert [(e.producer_epoch, e.coordinator_epoch) for e in loaded] == [(3, 2)] * 3
    assert [e.last_timestamp for e in loaded] == [100, 500, 77]


def test_for_kafka_the_last_row_of_a_producer_is_its_last_batch() -> None:
    content = producer_snapshots.encode(
        [entry(1, AppendedBatch(0, 4, 10, 14, 99), AppendedBatch(5, 5, 20, 20, 100))]
    )
    count, rows = struct.unpack_from(">i", content, 6)[0], content[10:]
    last_one_wins = {row[0]: row[2:4] for row in struct.iter_unpack(">qhiqiqiq", rows)}
    assert (count, last_one_wins) == (2, {1: (5, 20)})


@given(st.integers(0, 55), st.integers(0, 7))
def test_any_flipped_bit_of_a_snapshot_is_noticed(byte: int, bit: int) -> None:
    disk = SimDisk()
    producer_snapshots.write_snapshot(disk, "s", [entry(1, AppendedBatch(5, 5, 20, 20, 100))])
    disk.flip_bit("s", byte, bit)
    with pytest.raises(CorruptFile):
        producer_snapshots.read_snapshot(disk, "s")


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert parse_uuid("AAAAAAAAAAAAAAAAAAAAAA") == bytes(16)
    for text in ("", "A", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB", "?" * 22, "A" * 24):
        assert parse_uuid(text) is None, text


def test_partition_metadata_holds_the_topic_id() -> None:
    disk = SimDisk()
    write_topic_id(disk, "m", b"0123456789abcdef")
    assert disk.files()["m"] == b"version: 0\ntopic_id: MDEyMzQ1Njc4OWFiY2RlZg\n"
    assert read_topic_id(disk, "m") == b"0123456789abcdef"
    assert read_topic_id(disk, "absent") is None
    for content in (b"", b"version: 1\ntopic_id: x\n", b"version: 0\n", b"version: 0\nid: x\n"):
        put(disk, "m", content)
        with pytest.raises(CorruptFile):
            read_topic_id(disk, "m")


OURS = MetaProperties("cluster-1", 4, b"0123456789abcdef")


def test_a_directory_belongs_to_one_node_of_one_cluster() -> None:
    disk = SimDisk()
    with pytest.raises(NotFormatted):
        require_owner(disk, cluster_id="cluster-1", node_id=4)
    format_directory(disk, OURS)
    assert require_owner(disk, cluster_id="cluster-1", node_id=4) == OURS
    format_directory(disk, OURS)
    with pytest.raises(ForeignDirectory, match="cluster-1"):
        require_owner(disk, cluster_id="other", node_id=4)
    with pytest.raises(ForeignDirectory, match="node 4"):
        require_owner(disk, cluster_id="cluster-1", node_id=5)
    with pytest.raises(ForeignDirectory):
        format_directory(disk, MetaProperties("other", 4, b"x" * 16))
    assert read_meta_properties(disk) == OURS


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ((b"version=1", b"version=2"), "version"),
        ((b"cluster.id=cluster-1", b"cluster.id="), "cluster.id"),
        ((b"node.id=4", b"node.id=four"), "node.id"),
        ((b"node.id=4", b"node.id"), "line 4"),
        ((b"directory.id=", b"directory.id=x"), "directory.id"),
        ((b"cluster", b"\xff\xff"), "line 2"),
    ],
)
def test_a_damaged_owner_file_is_refused(change: tuple[bytes, bytes], where: str) -> None:
    disk = SimDisk()
    format_directory(disk, OURS)
    put(disk, "meta.properties", disk.files()["meta.properties"].replace(*change))
    with pytest.raises(CorruptFile) as caught:
        require_owner(disk, cluster_id="cluster-1", node_id=4)
    assert caught.value.where == where


@pytest.mark.parametrize(
    "state",
    [
        StoredQuorumState(0, -1, None),
        StoredQuorumState(7, 3, None),
        StoredQuorumState(8, -1, VoterKey(2, b"0123456789abcdef")),
    ],
)
def test_a_vote_is_remembered(state: StoredQuorumState) -> None:
    disk = SimDisk()
    write_quorum_state(disk, "quorum-state", state)
    after = disk.after_power_loss(())
    assert read_quorum_state(after, "quorum-state") == state
    assert b"\n" not in disk.files()["quorum-state"]


def test_a_vote_that_cannot_be_read_is_not_forgotten_but_refused() -> None:
    disk = SimDisk()
    assert read_quorum_state(disk, "quorum-state") is None
    write_quorum_state(disk, "quorum-state", (8, -1, VoterKey(2, b"0123456789abcdef")))
    good = disk.files()["quorum-state"]
    for bad in (b"", b"{", b"[]", good.replace(b"8", b"-8"), good.replace(b'n":1', b'n":2')):
        put(disk, "quorum-state", bad)
        with pytest.raises(CorruptFile, match="quorum-state"):
            read_quorum_state(disk, "quorum-state")


def test_the_quorum_state_of_a_kafka_with_static_voters_is_read() -> None:
    """It names no directory: a vote counts as given to nobody else in that epoch."""
    disk = SimDisk()
    content = (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":7,"votedId":2,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    put(disk, "quorum-state", content)
    expected = StoredQuorumState(7, -1, VoterKey(2, bytes(16)))
    assert read_quorum_state(disk, "quorum-state") == expected


def test_a_proof_of_an_orderly_stop_is_good_once() -> None:
    disk = SimDisk()
    assert clean_shutdown.take_marker(disk, []) is None
    clean_shutdown.write_marker(disk, 12)
    assert disk.files()[".kafka_cleanshutdown"] == b'{"version":0,"brokerEpoch":12}'
    assert clean_shutdown.take_marker(disk, []) == 12
    assert clean_shutdown.take_marker(disk.after_power_loss(()), []) is None
    for content in (b"", b"{}", b'{"version":0}', b'{"version":1,"brokerEpoch":3}', b"\xff"):
        put(disk, ".kafka_cleanshutdown", content)
        assert clean_shutdown.take_marker(disk, []) is None
        assert not disk.exists(".kafka_cleanshutdown")


def test_the_previous_broker_epoch_needs_every_directory() -> None:
    assert clean_shutdown.previous_broker_epoch([5, 5]) == 5
    assert clean_shutdown.previous_broker_epoch([5, None]) == -1
    assert clean_shutdown.previous_broker_epoch([5, 6]) == -1
    assert clean_shutdown.previous_broker_epoch([]) == -1
