"""A batch whose bytes have changed at rest is put back as it was, or not touched at all."""

import pytest

from support.batches import batch
from tidelog.sim.disk import SimDisk
from tidelog.storage import CorruptSegment, LogConfig, LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.mending import Damage, Fit, Patch, damage_of
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.records import iter_batches

END = 1 << 62
COUNT = 20
SEGMENT = "orders-0/00000000000000000000.log"


def written(values: int = 3) -> tuple[SimDisk, Log]:
    """A log of one segment, in which every batch has some records."""
    disk = SimDisk()
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    directory = LogDirectory.open(
        disk, lambda _: LogConfig(index_interval_bytes=200), cluster_id="c", node_id=1
    )
    log = directory.create_log(("orders", 0), b"t" * 16)
    for number in range(COUNT):
        texts = [b"value %d of %d" % (each, number) for each in range(values)]
        log.append_as_leader(batch(*texts), number // 8)
    directory.sync_dirty()
    return disk, log


def places(disk: SimDisk) -> list[tuple[int, int, int]]:
    """Position, size and base offset of every batch."""
    content = disk.files()[SEGMENT]
    return [(at, header.size_bytes, header.base_offset) for at, header in iter_batches(content)]


def found(log: Log, offset: int) -> Damage:
    with pytest.raises(CorruptSegment) as caught:
        log.read(offset, END, 1)
    damage = damage_of(log, caught.value)
    assert damage is not None
    return damage


def intact_bytes(log: Log, offset: int, max_bytes: int = 1) -> memoryview:
    return log.read(offset, END, max_bytes)[0]


def test_any_flipped_bit_of_a_batch_is_put_back_from_another_replica() -> None:
    disk, log = written()
    healthy = disk.files()[SEGMENT]
    _, other = written()
    position, size, offset = places(disk)[9]
    for byte in range(position, position + size):
        disk.flip_bit(SEGMENT, byte, byte % 8)
        damage = found(log, offset)
        assert (damage.position, damage.offset) == (position, offset), byte
        patch = Patch(log, damage, committed_offset=log.log_end_offset)
        assert patch.add(intact_bytes(other, offset)) is Fit.WHOLE, byte
        assert disk.files()[SEGMENT] != healthy, "nothing is written before it is known to fit"
        done = patch.write()
        done.syncing.run()
        done.end(None)
        assert disk.files()[SEGMENT] == healthy, byte
        for each in range(log.log_end_offset):
            assert intact_bytes(log, each) == intact_bytes(other, each)


def test_the_damage_is_named_by_its_offsets_though_its_length_is_damaged_too() -> None:
    disk, log = written()
    position, _, offset = places(disk)[4]
    for byte in (position + 3, position + 8, position + 11, position + 16, position + 40):
        disk.flip_bit(SEGMENT, byte, 0)
        assert found(log, offset).offsets == f"offsets {offset} to {offset + 2}", byte - position
        disk.flip_bit(SEGMENT, byte, 0)


@pytest.mark.parametrize("interval_bytes", [1, 200, 10**6])
def test_damage_is_found_where_it_is_by_one_who_walks_over_it(interval_bytes: int) -> None:
    """A length or a number of records that has changed leads to a place behind the batch."""
    disk, log = written()
    log.config.index_interval_bytes = interval_bytes
    segment = log.segments[0]
    segment.rebuild_indexes()
    position, _, offset = places(disk)[9]
    led_astray = 0
    for byte in range(position, position + 61):
        for bit in range(8):
            disk.flip_bit(SEGMENT, byte, bit)
            try:
                for _ in segment.batches():
                    pass
            except CorruptSegment as error:
                damage = damage_of(log, error)
                assert damage is not None
                assert (damage.position, damage.offset) == (position, offset), (byte, bit)
                led_astray += error.position != position
            disk.flip_bit(SEGMENT, byte, bit)
    assert led_astray > 0


def test_some_damaged_batches_in_a_row_are_put_back_together() -> None:
    disk, log = written()
    healthy = disk.files()[SEGMENT]
    _, other = written()
    for number in (6, 7, 8):
        disk.flip_bit(SEGMENT, places(written()[0])[number][0] + 30, 1)
    offset = places(written()[0])[6][2]
    damage = found(log, offset)
    assert damage.offsets == f"offsets {offset} to {offset + 8}"
    patch = Patch(log, damage, committed_offset=log.log_end_offset)
    answers = []
    while not answers or answers[-1] is Fit.MORE:
        answers.append(patch.add(intact_bytes(other, patch.next_offset)))
    assert answers == [Fit.MORE, Fit.MORE, Fit.WHOLE]
    done = patch.write()
    done.syncing.run()
    done.end(None)
    assert disk.files()[SEGMENT] == healthy


def test_the_last_batch_is_put_back_too() -> None:
    disk, log = written()
    healthy = disk.files()[SEGMENT]
    position, _, offset = places(disk)[-1]
    disk.flip_bit(SEGMENT, position + 50, 1)
    patch = Patch(log, found(log, offset), committed_offset=log.log_end_offset)
    assert patch.add(intact_bytes(written()[1], offset)) is Fit.WHOLE
    patch.write().syncing.run()
    assert disk.files()[SEGMENT] == healthy


@pytest.mark.parametrize("wrong", ["damaged too", "another batch", "epoch", "size", "uncommitted"])
def test_what_is_not_the_batch_that_was_there_is_not_written(wrong: str) -> None:
    disk, log = written()
    position, size, offset = places(disk)[9]
    disk.flip_bit(SEGMENT, position + 30, 1)
    sent = bytearray(intact_bytes(written()[1], offset))
    committed = log.log_end_offset
    if wrong == "damaged too":
        sent[-1] ^= 1
    elif wrong == "another batch":
        sent = bytearray(intact_bytes(written()[1], offset + 3))
    elif wrong == "epoch":
        sent[15] ^= 1
    elif wrong == "size":
        sent = batch(b"a", b"b", b"c", base_offset=offset, epoch=1)
        assert len(sent) != size
    else:
        committed = offset + 1
    patch = Patch(log, found(log, offset), committed_offset=committed)
    assert patch.add(sent) is not Fit.WHOLE
