"""One bit of any byte of any file flips while the node is down (fault matrix rows 26 to 29).

Whatever happens then, no record that is not the one appended is ever served, and no record is
lost because of a file that is not a segment: it is there, or the log is refused with a reason.
"""

import pytest

from support.batches import batch, headers
from tidelog.sim.disk import SimDisk
from tidelog.storage import CorruptSegment, LogConfig, LogDirectory, StorageError
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.meta_properties import MetaProperties, format_directory

ORDERS: PartitionName = ("orders", 0)
END = 1 << 62
COUNT = 12


def open_directory(disk: SimDisk) -> LogDirectory:
    return LogDirectory.open(
        disk,
        lambda _: LogConfig(segment_bytes=400, index_interval_bytes=100),
        cluster_id="c",
        node_id=1,
    )


def stopped(orderly: bool) -> tuple[SimDisk, dict[int, bytes]]:
    """A directory at rest, and every record in it."""
    disk = SimDisk()
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    directory = open_directory(disk)
    log = directory.create_log(ORDERS, b"t" * 16)
    for number in range(COUNT):
        data = batch(b"value %d" % number, producer=5, sequence=number, time_ms=number)
        log.append_as_leader(data, number // 5)
    log.raise_log_start(2)
    directory.sync_dirty()
    log.store_epochs()  # as the clock does: no checksum covers the leader epoch of a batch
    written = {offset: bytes(log.read(offset, END, 1)[0]) for offset in range(2, COUNT)}
    directory.checkpoint_recovery_points()
    if orderly:
        directory.close(broker_epoch=1, high_watermarks={ORDERS: COUNT})
    return disk, written


def served(directory: LogDirectory) -> tuple[dict[int, bytes], int]:
    """What can be read, and how many offsets could not be."""
    log = directory.logs[ORDERS]
    assert log.log_end_offset <= COUNT
    found: dict[int, bytes] = {}
    refused = 0
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            runs = log.read(offset, END, 1)
        except CorruptSegment:
            refused += 1
            continue
        assert headers(runs)[0].base_offset == offset
        found[offset] = bytes(runs[0])
    return found, refused


@pytest.mark.parametrize("orderly", [True, False])
def test_one_flipped_bit_never_becomes_a_wrong_record(orderly: bool) -> None:
    disk, written = stopped(orderly)
    outcomes = {"served": 0, "partly": 0, "refused": 0, "aside": 0, "closed": 0}
    for path, content in disk.files().items():
        for byte in range(len(content)):
            damaged = disk.copy()
            damaged.flip_bit(path, byte, byte % 8)
            where = f"{path} byte {byte}"
            try:
                directory = open_directory(damaged)
            except StorageError:
                outcomes["closed"] += 1
                assert path == "meta.properties", where
                continue
            if ORDERS in directory.refused:
                outcomes["refused"] += 1
                assert not path.endswith(("index", "snapshot")), where
                continue
            if ORDERS not in directory.logs:
                outcomes["aside"] += 1
                assert path == "orders-0/partition.metadata", where
                continue
            found, refused = served(directory)
            assert all(found[at] == written[at] for at in found if at in written), where
            missing = [at for at in written if at not in found]
            outcomes["partly" if missing else "served"] += 1
            if missing and not path.endswith(".log"):
                start = directory.logs[ORDERS].log_start_offset
                # Only the start of what is shown can move, by a file without a checksum.
                assert path == "log-start-offset-checkpoint" or refused, where
                assert refused or missing == list(range(2, min(start, COUNT))), where
    assert min(outcomes.values()) > 0, f"a gentle test: {outcomes}"


def test_a_flipped_bit_is_not_taken_for_the_end_of_what_may_be_read() -> None:
    """A reader that stops at the high watermark would wait for ever for a batch whose header
    says that it ends behind it."""
    disk, written = stopped(orderly=False)
    segment = "orders-0/00000000000000000000.log"
    size = len(written[2])
    refused = 0
    for byte in range(2 * size, 3 * size):  # the batch at offset 2
        for bit in range(8):
            damaged = disk.copy()
            log = open_directory(damaged).logs[ORDERS]
            damaged.flip_bit(segment, byte, bit)
            with pytest.raises(CorruptSegment) as caught:
                log.read(2, 3, 1)
            refused += caught.value.offset == 2
    assert refused == 8 * size


def test_a_bit_that_flips_under_a_reader_is_found_though_its_place_is_known() -> None:
    """A read that goes on where the last one ended does not look for its place. It checks what
    it finds there all the same, and names the same batch as a reader that comes from elsewhere."""
    disk, written = stopped(orderly=False)
    segment = "orders-0/00000000000000000000.log"
    size = len(written[2])
    for byte in range(2 * size, 4 * size):  # the batches at offsets 2 and 3
        damaged = disk.copy()
        directory = open_directory(damaged)
        assert served(directory)[1] == 0
        damaged.flip_bit(segment, byte, byte % 8)
        bad = byte // size
        with pytest.raises(CorruptSegment) as caught:
            directory.logs[ORDERS].read(bad, END, 1)
        assert caught.value.offset == bad, byte
        assert bytes(directory.logs[ORDERS].read(5 - bad, END, 1)[0]) == written[5 - bad], byte
