"""Replicas compared by their files: every kind of damage is found, and named with its place."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.batches import batch
from support.data_directories import TOPIC_ID, NodeDirectory, fill, flip, segment_files
from tidelog.audit.replica_comparison import (
    CHECKSUM,
    DIFFERS,
    DIVERGING,
    IDENTICAL,
    LAGGING,
    MISSING,
    PARTED,
    TRIMMED,
    UNREADABLE,
    Comparison,
)
from tidelog.audit.replicas import LivePartition, audit_partition, work_of
from tidelog.cli.main import cli
from tidelog.replica_files import DataDirectory
from tidelog.storage import LogConfig
from tidelog.wire.records import Record, encode, iter_batches

ORDERS = ("orders", 0)


def batches(count: int, first: int = 0) -> list[bytearray]:
    """Two records each; all of the same size below a hundred."""
    return [batch(b"a%02d" % number, b"b%d" % number) for number in range(first, first + count)]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[NodeDirectory]]:
    opened = [NodeDirectory(tmp_path, number) for number in (1, 2, 3)]
    yield opened
    for node in opened:
        node.close()


def fill_all(nodes: list[NodeDirectory], count: int = 90) -> None:
    for node in nodes:
        fill(node.log("orders"), batches(count))
        node.checkpoint({ORDERS: 2 * count})


def compared(nodes: list[NodeDirectory], live: LivePartition | None = None) -> Comparison:
    directories = [DataDirectory(node.path) for node in nodes]
    [work] = work_of(directories, [ORDERS], {ORDERS: live} if live else {})
    return audit_partition(work)


def found(comparison: Comparison) -> list[tuple[str, tuple[int, ...], int, int]]:
    return [
        (each.kind, each.nodes, each.first_offset, each.end_offset) for each in comparison.findings
    ]


def batch_at(node: NodeDirectory, offset: int) -> tuple[Path, int]:
    """The file and the byte where the batch with this offset begins."""
    path = [each for each in segment_files(node, "orders-0") if int(each.stem) <= offset][-1]
    for position, header in iter_batches(path.read_bytes()):
        if header.last_offset >= offset:
            return path, position
    raise AssertionError(f"no offset {offset} in {path}")


def test_replicas_of_the_same_batches_are_identical(nodes: list[NodeDirectory]) -> None:
    fill_all(nodes)
    verdict = compared(nodes)
    assert (verdict.verdict, verdict.ends) == (IDENTICAL, {1: 180, 2: 180, 3: 180})
    assert verdict.bytes_read == 3 * verdict.compared_bytes > 0


def test_a_replica_without_its_first_segment_lacks_those_records(
    nodes: list[NodeDirectory],
) -> None:
    """They were called identical: nobody looked at what only the others had."""
    fill_all(nodes)
    first, second, *_ = segment_files(nodes[1], "orders-0")
    first.unlink()
    verdict = compared(nodes)
    assert verdict.verdict == DIVERGING
    assert found(verdict) == [(MISSING, (2,), 0, int(second.stem))]
    assert verdict.told() == f"orders-0: broker 2: offsets 0 to {int(second.stem) - 1} missing"


def test_a_replica_that_deleted_old_records_is_not_damaged_and_not_identical(
    nodes: list[NodeDirectory],
) -> None:
    fill_all(nodes)
    second = int(segment_files(nodes[1], "orders-0")[1].stem)
    log = nodes[1].log("orders")
    log.sync()
    log.raise_log_start(second)
    log.apply_retention(0, 180)
    verdict = compared(nodes)
    assert (verdict.verdict, verdict.findings) == (TRIMMED, ())
    assert verdict.starts == {1: 0, 2: second, 3: 0}
    assert verdict.held_by_some == second
    result = CliRunner().invoke(
        cli, ["audit", "replicas", *(f"--dir={n}={node.path}" for n, node in enumerate(nodes, 1))]
    )
    assert result.exit_code == 0, result.output
    assert f"(broker 1 at 0, broker 2 at {second}, broker 3 at 0): {second} are only in" in (
        result.output
    )
    assert "0 identical, 0 lagging, 1 trimmed, 0 diverging" in result.output


def test_retention_that_is_under_way_is_not_taken_for_a_lost_segment(
    nodes: list[NodeDirectory],
) -> None:
    """The log start is stored after the segments lost their names, and before their files go."""
    fill_all(nodes)
    log = nodes[1].log("orders")
    log.sync()
    log.config.retention_bytes = 1
    assert log.apply_retention(0, 180) > 0
    assert compared(nodes).verdict == TRIMMED
    path, position = batch_at(nodes[2], 10)
    flip(path, position + 70)
    assert found(compared(nodes)) == [(CHECKSUM, (3,), 10, 12)]


def test_epochs_that_no_checkpoint_has_are_read_from_the_batches(
    nodes: list[NodeDirectory],
) -> None:
    """The last node was killed before its checkpoint was written, another one never knew."""
    for node in nodes:
        fill(node.log("orders"), batches(30), epoch=0)
        node.checkpoint({ORDERS: 60})
        fill(node.log("orders"), batches(30, 30), epoch=2)
        if node is not nodes[2]:
            node.checkpoint({ORDERS: 120})
        fill(node.log("orders"), batches(30, 60), epoch=5)
    found_epochs = [DataDirectory(node.path).replica(ORDERS) for node in nodes]
    assert {each.epochs for each in found_epochs if each} == {((0, 0), (2, 60), (5, 120))}
    assert (compared(nodes).verdict, compared(nodes).findings) == (IDENTICAL, ())
    path, begin = batch_at(nodes[2], 100)
    flip(path, begin + 15, 16)
    assert {each.nodes for each in compared(nodes).findings} == {(3,)}


def test_a_flipped_byte_is_named_with_broker_and_offset(nodes: list[NodeDirectory]) -> None:
    fill_all(nodes)
    path, position = batch_at(nodes[1], 100)
    flip(path, position + 70)
    verdict = compared(nodes)
    assert verdict.verdict == DIVERGING
    assert found(verdict) == [(CHECKSUM, (2,), 100, 102)]
    words = verdict.findings[0].told()
    assert words == (
        f"broker 2: the checksum is wrong at offsets 100 to 101 (byte {position} of {path.name})"
    )


@pytest.mark.parametrize("position", [6, 7, 14, 15], ids=lambda at: f"byte {at}")
def test_a_byte_outside_the_checksum_is_judged_by_the_majority(
    nodes: list[NodeDirectory], position: int
) -> None:
    """Base offset and leader epoch. The wrong offset shows twice: where it is and where not."""
    fill_all(nodes)
    path, begin = batch_at(nodes[2], 100)
    flip(path, begin + position)
    findings = compared(nodes).findings
    assert findings
    assert {each.nodes for each in findings} == {(3,)}
    assert any(each.first_offset == 100 for each in findings)


@pytest.mark.parametrize("bit", [1, 64, 128], ids=["longer", "much longer", "negative"])
@pytest.mark.parametrize("byte", [8, 11], ids=["first", "last"])
def test_a_wrong_length_does_not_hide_the_rest(
    nodes: list[NodeDirectory], byte: int, bit: int
) -> None:
    fill_all(nodes)
    path, begin = batch_at(nodes[1], 60)
    flip(path, begin + byte, bit)
    later, further = batch_at(nodes[1], 150)
    flip(later, further + 70)
    verdict = compared(nodes)
    assert {each.nodes for each in verdict.findings} == {(2,)}
    assert found(verdict)[-1] == (CHECKSUM, (2,), 150, 152), "the rest was read too"
    first = [each for each in verdict.findings if each.first_offset < 150]
    assert first[0].first_offset in (60, 62)
    assert {each.kind for each in first} <= {UNREADABLE, CHECKSUM, MISSING}
    assert max(each.end_offset for each in first) <= 80, "the index leads back soon"
    unreadable = [each for each in first if each.kind == UNREADABLE]
    assert f"at byte position {unreadable[0].position} of {path.name}" in unreadable[0].told()


def test_a_replica_that_is_behind_lags_and_is_compared_as_far_as_it_goes(
    nodes: list[NodeDirectory],
) -> None:
    fill_all(nodes[:2])
    fill(nodes[2].log("orders"), batches(10))
    nodes[2].checkpoint({ORDERS: 20})
    verdict = compared(nodes)
    assert (verdict.verdict, verdict.ends[3], verdict.findings) == (LAGGING, 20, ())
    path, position = batch_at(nodes[0], 170)
    flip(path, position + 70)
    assert found(compared(nodes)) == [(CHECKSUM, (1,), 170, 172)], "beyond the one that lags"


def test_what_is_above_the_high_watermark_may_differ(nodes: list[NodeDirectory]) -> None:
    fill_all(nodes)
    fill(nodes[0].log("orders"), [batch(b"one")])
    fill(nodes[1].log("orders"), [batch(b"other"), batch(b"more")])
    path = segment_files(nodes[2], "orders-0")[-1]
    nodes[2].close()
    path.write_bytes(path.read_bytes() + b"torn")
    assert compared(nodes).verdict == IDENTICAL


def test_a_dead_leader_with_records_of_its_own_lags_and_does_not_diverge(
    nodes: list[NodeDirectory],
) -> None:
    """It will cut them when it comes back: its history ends where the new leader's begins."""
    for node in nodes:
        fill(node.log("orders"), batches(10), epoch=0)
        node.checkpoint({ORDERS: 20})
    fill(nodes[0].log("orders"), [batch(b"only here")] * 3, epoch=0)
    for node in nodes[1:]:
        fill(node.log("orders"), [batch(b"new")] * 5, epoch=1)
        node.checkpoint({ORDERS: 25})
    verdict = compared(nodes)
    assert (verdict.verdict, verdict.ends) == (LAGGING, {1: 20, 2: 25, 3: 25})
    live = LivePartition(25, TOPIC_ID, (1, 2, 3), (1, 2, 3))
    assert found(compared(nodes, live)) == [(PARTED, (1,), 20, 25)], "one in sync must not"


def test_two_replicas_that_differ_accuse_each_other(nodes: list[NodeDirectory]) -> None:
    for node, value in ((nodes[0], b"one"), (nodes[1], b"two")):
        fill(node.log("orders"), [*batches(3), batch(value), *batches(3)])
        node.checkpoint({ORDERS: 13})
    verdict = compared(nodes[:2])
    assert found(verdict) == [(DIFFERS, (1, 2), 6, 7)]
    assert "no majority says who is right" in verdict.told()
    fill(nodes[2].log("orders"), [*batches(3), batch(b"two"), *batches(3)])
    assert found(compared(nodes)) == [(DIFFERS, (1,), 6, 7)]


def test_records_that_a_replica_had_and_lost_are_missing(nodes: list[NodeDirectory]) -> None:
    fill_all(nodes)
    last = segment_files(nodes[1], "orders-0")[-1]
    nodes[1].close()
    last.write_bytes(b"")
    assert found(compared(nodes)) == [(MISSING, (2,), int(last.stem), 180)]


def test_a_segment_that_is_gone_from_the_middle_is_missing(nodes: list[NodeDirectory]) -> None:
    fill_all(nodes, 150)
    gone, after = segment_files(nodes[2], "orders-0")[1:3]
    gone.unlink()
    assert found(compared(nodes)) == [(MISSING, (3,), int(gone.stem), int(after.stem))]


def test_a_broker_that_should_have_a_replica_and_has_none_is_named(
    nodes: list[NodeDirectory],
) -> None:
    fill_all(nodes[:2])
    live = LivePartition(180, TOPIC_ID, (1, 2, 3), (1, 2))
    assert compared(nodes, live).verdict == LAGGING
    in_sync = live._replace(in_sync=(1, 2, 3))
    assert found(compared(nodes, in_sync)) == [(MISSING, (3,), 0, 180)]


# ---- compacted ----


def keyed(*pairs: tuple[bytes, bytes | None]) -> bytearray:
    return encode([Record(n, 1000, key, value) for n, (key, value) in enumerate(pairs)])


def compacting(root: Path, number: int, last: bytes = b"x") -> NodeDirectory:
    config = LogConfig(segment_bytes=300, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0)
    node = NodeDirectory(root, number, config)
    log = node.log("orders")
    for value in range(12):
        fill(log, [keyed((b"k%d" % (value % 3), b"v%d" % value), (b"once%d" % value, b"x"))])
    fill(log, [keyed((b"last", last))])
    log.sync()
    node.checkpoint({ORDERS: log.log_end_offset})
    return node


def test_compacted_replicas_are_compared_by_what_is_left(tmp_path: Path) -> None:
    nodes = [compacting(tmp_path, number) for number in (1, 2, 3)]
    try:
        nodes[0].compact()
        verdict = compared(nodes)
        assert verdict.verdict == IDENTICAL, verdict.told()
        first, second = (
            sum(path.stat().st_size for path in segment_files(node, "orders-0"))
            for node in nodes[:2]
        )
        assert first < second
        nodes[1].compact()
        assert compared(nodes).verdict == IDENTICAL
        path, position = batch_at(nodes[1], 3)
        flip(path, position + 70)
        [damage] = found(compared(nodes))
        assert damage[:2] == (CHECKSUM, (2,))
        assert damage[2] <= 3 < damage[3]
    finally:
        for node in nodes:
            node.close()


def test_compacted_replicas_with_another_record_are_named(tmp_path: Path) -> None:
    nodes = [compacting(tmp_path, 1), compacting(tmp_path, 2), compacting(tmp_path, 3, b"other")]
    try:
        nodes[0].compact()
        assert found(compared(nodes)) == [(DIFFERS, (3,), 24, 25)]
    finally:
        for node in nodes:
            node.close()


# ---- the command ----


def run(nodes: list[NodeDirectory], *more: str) -> Result:
    arguments = [f"--dir={number}={node.path}" for number, node in enumerate(nodes, 1)]
    return CliRunner().invoke(cli, ["audit", "replicas", *arguments, *more])


def test_healthy_replicas_end_with_zero_and_say_how_fast(nodes: list[NodeDirectory]) -> None:
    fill_all(nodes)
    result = run(nodes)
    assert result.exit_code == 0, result.output
    assert "1 partition: 1 identical, 0 lagging, 0 diverging" in result.stdout
    assert "high watermarks from checkpoints" in result.stdout
    assert "GB/s" in result.stdout


def test_damage_ends_with_five_and_names_topic_partition_broker_and_offset(
    nodes: list[NodeDirectory],
) -> None:
    fill_all(nodes)
    path, position = batch_at(nodes[1], 100)
    flip(path, position + 70)
    result = run(nodes)
    assert result.exit_code == 5
    assert "orders-0 DIVERGES below 180" in result.stdout
    assert "broker 2: the checksum is wrong at offsets 100 to 101" in result.stdout
    document = json.loads(run(nodes, "-o", "json").stdout)
    assert document["verdict"] == "diverging"
    [partition] = document["partitions"]
    assert (partition["topic"], partition["partition"]) == ("orders", 0)
    [finding] = partition["findings"]
    assert (finding["brokers"], finding["first_offset"]) == ([2], 100)
    assert finding["position"] == position


def test_wrong_directories_and_topics_are_named(nodes: list[NodeDirectory], tmp_path: Path) -> None:
    fill_all(nodes)
    for arguments, words in (
        (["--dir", str(tmp_path)], "names no broker"),
        (["--dir", f"1={tmp_path / 'nowhere'}"], "is not a directory"),
        (["--dir", f"7={nodes[0].path}"], "it belongs to node 1, not to node 7"),
        (["--dir", f"1={nodes[0].path}", "--topic", "nothing"], "there is no replica of nothing"),
    ):
        result = CliRunner().invoke(cli, ["audit", "replicas", *arguments])
        assert (result.exit_code, words in result.stderr) == (2, True), result.output


def test_several_partitions_are_compared_side_by_side(nodes: list[NodeDirectory]) -> None:
    for partition in range(5):
        for node in nodes:
            fill(node.log("orders", partition), batches(5))
    for node in nodes:
        node.checkpoint({("orders", partition): 10 for partition in range(5)})
    flip(segment_files(nodes[0], "orders-3")[0], 70)
    result = run(nodes, "--jobs", "4")
    assert result.exit_code == 5
    assert "4 identical, 0 lagging, 1 diverging" in result.stdout
    assert "orders-3 DIVERGES" in result.stdout
