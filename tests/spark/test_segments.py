"""Topics read from the files of their replicas, as plain objects: no Spark, no brokers."""

import pytest

from support.batches import batch, marker
from support.data_directories import NodeDirectory, fill, flip, segment_files
from tidelog.spark.failure import DataLoss, InvalidOption, TidelogError
from tidelog.spark.segments.planning import plan_groups
from tidelog.spark.segments.ranges import SegmentsPlan
from tidelog.spark.segments.reading import Reads, read_segments
from tidelog.spark.source_options import source_options

OTHER_ID = bytes(16)


def batches(count, first=0, **settings):
    """Two records each, one batch per 10 ms from 1000 on."""
    return [
        batch(b"a%d" % number, b"b%d" % number, time_ms=1000 + 10 * number, **settings)
        for number in range(first, first + count)
    ]


def options_of(*nodes, **options):
    paths = ",".join(str(node.path) for node in nodes)
    values = {"path": paths, "subscribe": "orders"} | options
    if "assign" in options or "subscribePattern" in options:
        del values["subscribe"]
    return source_options(values, streaming=False)


def read(*nodes, reads=None, columns=("offset", "value"), **options):
    """(offset, value) of every row, partition by partition."""
    chosen = options_of(*nodes, **options)
    plan = SegmentsPlan(columns, chosen.committed, chosen.fail_on_data_loss)
    rows = []
    for group in plan_groups(chosen):
        for piece in read_segments(group, plan, reads):
            rows += zip(*(column.to_pylist() for column in piece.columns), strict=True)
    return rows


def offsets(*nodes, **options):
    return sorted(row[0] for row in read(*nodes, **options))


def at(**offsets):
    """`{"orders":{"0":5}}` from p0=5."""
    inner = ",".join(f'"{name[1:]}":{number}' for name, number in offsets.items())
    return f'{{"orders":{{{inner}}}}}'


@pytest.fixture
def node(tmp_path):
    with NodeDirectory(tmp_path, 1) as node:
        yield node


@pytest.fixture
def other(tmp_path):
    with NodeDirectory(tmp_path, 2) as node:
        yield node


def filled(node, count=100, **settings):
    log = node.log("orders")
    fill(log, batches(count), **settings)
    node.checkpoint({("orders", 0): log.log_end_offset})
    return log


def test_what_is_below_the_high_watermark_is_there_and_nothing_above_it(node):
    filled(node, 150)
    assert len(segment_files(node, "orders-0")) > 2
    assert read(node) == [(n, b"ab"[n % 2 : n % 2 + 1] + b"%d" % (n // 2)) for n in range(300)]
    node.checkpoint({("orders", 0): 33})  # in the middle of a batch, and of a segment
    assert offsets(node) == list(range(33))


def test_without_a_checkpoint_nothing_is_known_to_be_committed(node):
    fill(node.log("orders"), batches(3))
    assert offsets(node) == []


def test_only_the_regions_of_the_wanted_offsets_are_read(node):
    log = filled(node, 3000)
    whole, few, one = Reads(), Reads(), Reads()
    assert len(read(node, reads=whole)) == 6000
    assert whole.bytes_read == log.size_bytes
    wanted = {"startingOffsets": at(p0=3000), "endingOffsets": at(p0=3100)}
    assert [row[0] for row in read(node, reads=few, **wanted)] == list(range(3000, 3100))
    assert few.bytes_read < 100 / 6000 * log.size_bytes + 3 * 4000
    wanted = {"startingOffsets": at(p0=5000), "endingOffsets": at(p0=5001)}
    assert [row[0] for row in read(node, reads=one, **wanted)] == [5000]
    assert (one.segments, one.bytes_read < 2000) == (1, True)


def test_only_the_regions_of_the_wanted_times_are_read(node):
    log = filled(node, 3000)
    reads = Reads()
    found = read(node, reads=reads, startingTimestamp="11001", endingTimestamp="11100")
    assert [row[0] for row in found] == list(range(2002, 2020))
    assert reads.bytes_read < log.size_bytes / 100
    times = {"startingOffsetsByTimestamp": at(p0=30985), "endingTimestamp": "99999999"}
    assert offsets(node, **times) == [5998, 5999]
    with pytest.raises(TidelogError, match="orders-0 has nothing at or after"):
        offsets(node, startingTimestamp="30991")


def test_aborted_records_and_markers_are_no_rows(node):
    log = node.log("orders")
    fill(log, [batch(b"kept", producer=7, sequence=0, transactional=True)])
    fill(log, [batch(b"gone", producer=8, sequence=0, transactional=True)])
    fill(log, [batch(b"plain"), marker(8, commit=False), marker(7, commit=True)])
    fill(log, [batch(b"last")])
    node.checkpoint({("orders", 0): log.log_end_offset})
    assert read(node) == [(0, b"kept"), (2, b"plain"), (5, b"last")]
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert [row[1] for row in read(node, **uncommitted)] == [b"kept", b"gone", b"plain", b"last"]


def test_an_open_transaction_ends_the_read_before_it(node):
    log = filled(node, 100)
    fill(log, [batch(b"open", producer=7, sequence=0, transactional=True), batch(b"behind it")])
    node.checkpoint({("orders", 0): log.log_end_offset})
    assert offsets(node) == list(range(200))
    assert len(offsets(node, **{"kafka.isolation.level": "read_uncommitted"})) == 202
    fill(log, [marker(7, commit=True)])
    assert len(offsets(node)) == 200, "its marker is not committed"
    node.checkpoint({("orders", 0): log.log_end_offset})
    assert len(offsets(node)) == 202


def test_an_index_that_lies_hides_no_open_transaction(node):
    log = filled(node, 100)
    fill(log, [batch(b"open", producer=7, sequence=0, transactional=True)])
    fill(log, batches(30))
    node.checkpoint({("orders", 0): log.log_end_offset})
    for path in (node.path / "orders-0").glob("*.index"):
        path.write_bytes(bytes.fromhex("0000000100000003"))
    assert offsets(node) == list(range(200))


def test_tasks_are_as_many_and_as_large_as_asked_for(node):
    filled(node, 100)
    groups = plan_groups(options_of(node, minPartitions="5"))
    assert [sum(each.size for each in group) for group in groups] == [40] * 5
    groups = plan_groups(options_of(node, maxRecordsPerPartition="30"))
    assert max(sum(each.size for each in group) for group in groups) <= 30
    assert offsets(node, minPartitions="5", maxRecordsPerPartition="7") == list(range(200))


def test_a_torn_last_batch_ends_the_read(node):
    log = filled(node, 10)
    last = segment_files(node, "orders-0")[-1]
    node.close()
    last.write_bytes(last.read_bytes() + bytes(batch(b"torn", base_offset=20, epoch=0))[:-3])
    assert offsets(node) == list(range(20))
    assert log.log_end_offset == 20


def test_a_wrong_byte_is_an_error_with_its_place(node):
    filled(node, 60)
    second = segment_files(node, "orders-0")[1]
    flip(second, 100)
    with pytest.raises(TidelogError, match=r"orders-0 of broker 1 from offset \d+: .*checksum"):
        read(node)
    assert len(offsets(node, endingOffsets=at(p0=20))) == 20


@pytest.mark.parametrize("position", [7, 11, 15, 16], ids=["offset", "length", "epoch", "magic"])
def test_a_wrong_byte_outside_the_checksum_is_an_error_too(node, position):
    filled(node, 60)
    flip(segment_files(node, "orders-0")[1], position + 3 * 77)
    with pytest.raises(TidelogError, match="tidelog audit replicas"):
        read(node)


def test_an_index_that_lies_only_costs_time(node):
    filled(node, 60)
    for path in (node.path / "orders-0").glob("*.index"):
        entries = bytearray(path.read_bytes())
        for entry in range(0, len(entries), 8):
            position = int.from_bytes(entries[entry + 4 : entry + 8], "big")
            entries[entry + 4 : entry + 8] = (position + 5).to_bytes(4, "big")
        path.write_bytes(entries)
    wanted = {"startingOffsets": at(p0=50), "endingOffsets": at(p0=70)}
    assert offsets(node, **wanted) == list(range(50, 70))


def test_without_an_index_regions_before_the_offset_are_walked_over(node):
    filled(node, 60)
    for path in (node.path / "orders-0").glob("*.index"):
        path.unlink()
    chosen = options_of(node, startingOffsets=at(p0=50), endingOffsets=at(p0=70))
    [group] = plan_groups(chosen)
    pieces = read_segments(group, SegmentsPlan(("offset",), region_bytes=300))
    assert [row for piece in pieces for row in piece.column(0).to_pylist()] == list(range(50, 70))


def test_a_segment_that_retention_took_after_the_plan_is_data_loss(node):
    filled(node, 60)
    groups = plan_groups(options_of(node))
    first, second = segment_files(node, "orders-0")[:2]
    first.rename(f"{first}.deleted")
    columns = ("offset",)
    with pytest.raises(DataLoss, match=r"offsets 0 to \d+ of orders-0 of broker 1"):
        list(read_segments(groups[0], SegmentsPlan(columns)))
    lenient = SegmentsPlan(columns, fail_on_data_loss=False)
    pieces = list(read_segments(groups[0], lenient))
    assert pieces[0].column(0)[0].as_py() == int(second.stem)
    assert pieces[-1].column(0)[-1].as_py() == 119


def test_a_file_that_vanishes_while_it_is_read_is_read_to_its_end(node):
    filled(node, 60)
    groups = plan_groups(options_of(node))
    rows = 0
    for number, piece in enumerate(read_segments(groups[0], SegmentsPlan(("offset",)))):
        rows += piece.num_rows
        if number == 0:
            segment_files(node, "orders-0")[0].unlink()
    assert rows == 120


def test_the_replica_that_reaches_farthest_is_read(node, other):
    filled(node, 20)
    filled(other, 60)
    assert len(offsets(node, other)) == len(offsets(other, node)) == 120


def test_where_one_replica_is_damaged_or_emptied_another_one_is_read(node, other, caplog):
    filled(node, 150)
    filled(other, 150)
    groups = plan_groups(options_of(node, other))
    path = segment_files(node, "orders-0")[1]
    flip(path, 300)
    emptied = segment_files(other, "orders-0")[0]
    emptied.rename(f"{emptied}.deleted")
    [wanted] = groups[0]
    assert [each.node_id for each in (wanted.replica, *wanted.others)] == [1, 2]
    rows = [
        offset
        for piece in read_segments([wanted], SegmentsPlan(("offset",)))
        for offset in piece.column(0).to_pylist()
    ]
    assert rows == list(range(300)), "each once"
    assert "another replica is read instead" in caplog.text
    back = wanted._replace(replica=wanted.others[0], others=(wanted.replica,))
    with pytest.raises(DataLoss, match="of broker 2 were to be read"):
        list(read_segments([back], SegmentsPlan(("offset",))))


def test_a_replica_that_parted_from_the_history_is_read_only_up_to_there(node, other):
    """Broker 1 led, and died with records that nobody had; broker 2 has led since."""
    fill(node.log("orders"), batches(30), epoch=0)
    node.checkpoint({("orders", 0): 20})
    fill(other.log("orders"), batches(10), epoch=0)
    fill(other.log("orders"), [batch(b"new", b"er")] * 3, epoch=1)
    other.checkpoint({("orders", 0): 26})
    rows = read(node, other)
    assert [row[1] for row in rows[18:]] == [b"a9", b"b9", b"new", b"er", *[b"new", b"er"] * 2]
    assert len(rows) == 26


def test_batches_of_another_epoch_than_the_history_says_are_refused(node, other):
    fill(node.log("orders"), batches(30), epoch=0)
    fill(other.log("orders"), batches(10), epoch=0)
    fill(other.log("orders"), [batch(b"new", b"er")] * 3, epoch=1)
    other.checkpoint({("orders", 0): 26})
    groups = plan_groups(options_of(node, other))
    [wanted] = groups[0]
    [mistaken] = plan_groups(options_of(node, other, endingOffsets=at(p0=20)))[0]
    assert mistaken.epochs == wanted.epochs == ((0, 0), (1, 20))
    place = wanted.replica._replace(directory=str(node.path / "orders-0"), node_id=1)
    with pytest.raises(TidelogError, match="offset 20 of leader epoch 0"):
        list(read_segments([wanted._replace(replica=place)], SegmentsPlan(("offset",))))


def test_an_older_topic_of_the_same_name_is_not_mixed_in(node, other):
    filled(node, 10)
    fill(other.log("orders", topic_id=OTHER_ID), batches(5))
    with pytest.raises(TidelogError, match="different topics of that name"):
        read(node, other)


def test_partitions_are_found_by_name_pattern_and_number(node):
    for topic, partition in (("orders", 0), ("orders", 1), ("ordered", 0), ("__hidden", 0)):
        fill(node.log(topic, partition), batches(1))
        node.checkpoint({(topic, partition): 2})
    node.checkpoint({("orders", 0): 2, ("orders", 1): 2, ("ordered", 0): 2, ("__hidden", 0): 2})
    columns = ("topic", "partition", "offset")
    every = read(node, columns=columns, subscribePattern=".*order.*")
    assert sorted(row[:2] for row in every[::2]) == [("ordered", 0), ("orders", 0), ("orders", 1)]
    some = read(node, columns=columns, assign='{"orders":[1]}')
    assert some == [("orders", 1, 0), ("orders", 1, 1)]
    with pytest.raises(TidelogError, match="there is no topic nowhere"):
        read(node, subscribe="nowhere")


def test_a_hole_in_the_partitions_is_a_directory_that_was_left_out(node):
    for partition in (0, 2):
        fill(node.log("orders", partition), batches(1))
    with pytest.raises(TidelogError, match="no replica of orders-1 lies in path"):
        read(node)


def test_a_large_partition_is_cut_where_batches_begin(node, monkeypatch):
    filled(node, 600)
    monkeypatch.setattr("tidelog.spark.segments.planning.SMALLEST_PIECE_BYTES", 5000)
    monkeypatch.setattr("tidelog.spark.segments.planning.LARGEST_PIECE_BYTES", 5000)
    groups = plan_groups(options_of(node))
    assert len(groups) > 5
    starts = sorted(each.start for group in groups for each in group)
    assert starts[0] == 0
    assert all(start % 2 == 0 for start in starts)
    assert offsets(node) == list(range(1200))
    assert max(each.size for group in groups for each in group) < 400


def test_a_stream_and_a_directory_that_is_none_are_refused(node, tmp_path):
    with pytest.raises(InvalidOption, match="the option path is for batches"):
        source_options({"path": str(node.path), "subscribe": "orders"}, streaming=True)
    with pytest.raises(InvalidOption, match="is not a directory"):
        plan_groups(options_of(subscribe="orders", path=str(tmp_path / "nowhere")))
    with pytest.raises(InvalidOption, match=r"meta\.properties"):
        plan_groups(options_of(subscribe="orders", path=str(tmp_path)))


def test_offsets_beyond_what_is_committed_are_data_loss(node):
    filled(node, 10)
    with pytest.raises(DataLoss, match="orders-0 is to be read to offset 30, and ends at 20"):
        read(node, endingOffsets=at(p0=30))
    assert len(read(node, endingOffsets=at(p0=30), failOnDataLoss="false")) == 20
