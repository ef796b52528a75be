"""The log of a simulated node on bytes: the same story as on objects, and what disks do to it."""

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId
from tidelog.sim import mutation
from tidelog.sim.batch_bytes import LARGEST_BATCH_BYTES, decoded, encoded
from tidelog.sim.byte_disk import ByteNodeDisk
from tidelog.sim.byte_log import ByteLog
from tidelog.sim.recovery_facts import Recovery
from tidelog.sim.rules.recovery_rules import RecoveryKeepsWhatWasDurable
from tidelog.sim.sim_log import SimBatch, SimLog, client_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.errors import CorruptSegment, DirectoryOffline, NoSpace

ORDERS = PartitionId(b"orders topic id.", 0)
END = 1 << 40
Log = SimLog | ByteLog


class Bench:
    """A disk with one log, and everything that was heard about its restarts."""

    def __init__(self, *, segment_bytes: int = 4 * LARGEST_BATCH_BYTES, fsync: bool = True) -> None:
        config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=200,
            durability="fsync" if fsync else "page-cache",
        )
        self.heard: list[Recovery] = []
        state = QuorumState(0, NO_LEADER, None)
        self.disk = ByteNodeDisk(1, config, self.heard.append, quorum_state=state)
        self.log = self.disk.log(ORDERS, "orders")
        self.values = 0

    def append(self, count: int = 1, *, records: int = 2, epoch: int = 0) -> None:
        for _ in range(count):
            values = tuple(range(self.values, self.values + records))
            self.values += records
            self.log.append_as_leader(client_batch(values, timestamp=self.values), epoch)

    def judged(self) -> list[str]:
        """What rule R19 says about everything heard."""
        broken: list[str] = []
        rule = RecoveryKeepsWhatWasDurable.__new__(RecoveryKeepsWhatWasDurable)
        rule._report = lambda name, text: broken.append(text)
        for recovery in self.heard:
            rule.log_recovered(recovery)
        return broken


def whole(log: Log) -> list[SimBatch]:
    found: list[SimBatch] = []
    offset = log.log_start_offset
    while batches := log.read(offset, END, 3):
        found += batches
        offset = batches[-1].last_offset + 1
    return found


def face(log: Log) -> dict[str, object]:
    borders = range(log.log_start_offset, log.log_end_offset + 1)
    return {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "durable": log.durable_offset,
        "synced": log.synced_offset,
        "epochs": log.epochs.entries,
        "producers": [
            (e.producer_id, e.producer_epoch, list(e.batches)) for e in log.producers.entries()
        ],
        "batches": log.batches,
        "read": whole(log),
        "at": [log.batch_at(offset) for offset in borders],
        "chains": [log.chain_at(offset) for offset in borders],
    }


# ---- the same story on objects and on bytes ----

steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("follow"), st.integers(1, 3)),
    st.tuples(st.just("epoch"), st.integers(1, 2)),
    st.tuples(st.just("cut"), st.integers(0, 12)),
    st.tuples(st.just("sync"), st.just(0)),
    st.tuples(st.just("restart"), st.integers(0, 20)),
)


class Twins:
    """Does the same to a log of objects and to a log of bytes."""

    def __init__(self, bytes_log: ByteLog, *, fsync: bool) -> None:
        self.logs: tuple[Log, Log] = (SimLog(fsync=fsync), bytes_log)
        self.epoch = 0
        self.sequence = self.values = 0

    def batch(self, records: int) -> SimBatch:
        values = tuple(range(self.values, self.values + records))
        sequence = self.sequence
        self.values += records
        self.sequence += records
        return client_batch(
            values, timestamp=7, producer_id=5, producer_epoch=0, base_sequence=sequence
        )

    def do(self, step: str, number: int) -> None:
        end = self.logs[0].log_end_offset
        if step == "append":
            batch = self.batch(number)
            appended = [log.append_as_leader(batch, self.epoch) for log in self.logs]
            assert appended[0] == appended[1]
            return
        for log in self.logs:
            if step == "follow":
                log.append_as_follower(self.following(end, number))
            elif step == "epoch":
                log.assign_epoch(self.epoch + number, end)
            elif step == "cut":
                log.truncate_to(max(log.log_start_offset, end - number))
            elif step == "restart":
                log.truncate_fully_and_start_at(number)
            else:
                log.sync()
        self.epoch += number if step == "epoch" else 0
        self.values += number if step == "follow" else 0

    def following(self, offset: int, count: int) -> list[SimBatch]:
        """What a leader without producer ids would send."""
        values = range(self.values, self.values + count)
        return [
            client_batch((value,))._replace(
                base_offset=offset + n, last_offset=offset + n, leader_epoch=self.epoch
            )
            for n, value in enumerate(values)
        ]


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25), st.sampled_from((1, 3, 100)), st.booleans())
def test_bytes_and_objects_tell_the_same_story(story, batches_per_segment, fsync) -> None:
    bench = Bench(segment_bytes=batches_per_segment * LARGEST_BATCH_BYTES, fsync=fsync)
    twins = Twins(bench.log, fsync=fsync)
    for step, number in story:
        twins.do(step, number)
    for log in twins.logs:
        log.sync()
    objects, octets = (face(log) for log in twins.logs)
    assert octets == objects


@settings(max_examples=30, deadline=None)
@given(st.lists(steps, max_size=20), st.integers(0, 1 << 30), st.booleans())
def test_whatever_the_story_a_restart_keeps_what_it_must(story, seed, power_loss) -> None:
    bench = Bench()
    twins = Twins(bench.log, fsync=True)
    for step, number in story:
        twins.do(step, number)
    if power_loss:
        bench.disk.cut_power(0, random.Random(seed).randrange)
    bench.disk.reload()
    assert bench.judged() == []
    assert bench.log.synced_offset == bench.log.log_end_offset
    assert bench.log.is_as_stored()


def test_records_below_the_log_start_are_not_read_but_their_producer_is_known() -> None:
    bench = Bench()
    bench.append(6)
    bench.log.raise_log_start(5)
    assert bench.log.log_start_offset == 5
    assert [batch.base_offset for batch in bench.log.batches] == [4, 6, 8, 10]
    assert whole(bench.log) == bench.log.batches
    bench.disk.reload()
    assert bench.judged() == []
    assert bench.log.log_start_offset == 5
    assert whole(bench.log) == bench.log.batches


def test_a_batch_survives_its_encoding() -> None:
    batch = SimBatch(
        base_offset=40,
        last_offset=42,
        leader_epoch=3,
        max_timestamp=9,
        producer_id=8,
        producer_epoch=1,
        base_sequence=5,
        record_count=3,
        values=(1, 500, 2**40),
        is_transactional=True,
    )
    assert decoded([memoryview(encoded(batch))], 10) == [batch]
    assert decoded([memoryview(encoded(batch) * 3)], 2) == [batch, batch]
    assert len(encoded(batch)) <= LARGEST_BATCH_BYTES


def test_no_batch_of_five_records_is_larger_than_the_smallest_segment() -> None:
    sizes = [len(encoded(client_batch(tuple(range(n, n + 5))))) for n in range(0, 2000, 5)]
    assert max(sizes) <= LARGEST_BATCH_BYTES


# ---- crashes ----


def test_a_process_crash_keeps_what_was_never_synced() -> None:
    bench = Bench()
    bench.append(5)
    bench.disk.reload()
    assert bench.log.log_end_offset == 10
    assert bench.judged() == []


def test_a_power_loss_keeps_what_was_synced_and_a_part_of_the_rest() -> None:
    ends = []
    for seed in range(25):
        bench = Bench()
        bench.append(6)
        bench.log.sync()
        bench.append(6)
        lost = bench.disk.cut_power(0, random.Random(seed).randrange)
        ends.append(bench.log.log_end_offset)
        assert lost == 24 - ends[-1]
        assert bench.judged() == []
    assert min(ends) == 12
    assert max(ends) == 24
    assert len(set(ends)) > 3


def test_a_log_that_lost_what_was_synced_breaks_the_rule() -> None:
    bench = Bench()
    bench.append(6)
    bench.log.sync()
    written = bench.log.written(power_loss=True)
    bench.log.truncate_to(8)
    bench.disk.reload()
    (recovery,) = bench.heard
    bench.heard = [recovery._replace(written=written)]
    assert bench.judged() == [
        f"{ORDERS.topic_id.hex()[:8]}-0: node 1 after restart: ends at 8, 12 was owed"
    ]


def test_another_batch_in_the_place_of_one_breaks_the_rule() -> None:
    bench = Bench()
    bench.append(3)
    bench.disk.reload()
    (recovery,) = bench.heard
    batches = recovery.written.batches.copy()
    batches[1] = batches[1]._replace(values=(98, 99))
    bench.heard = [recovery._replace(written=recovery.written._replace(batches=batches))]
    assert "are not those that were written" in bench.judged()[0]


def test_an_orderly_stop_is_proved_by_the_marker_on_disk_and_only_once() -> None:
    bench = Bench(fsync=False)
    bench.append(3)
    bench.disk.high_watermarks[ORDERS] = 4
    bench.disk.on_clean_stop(broker_epoch=7)
    assert ".kafka_cleanshutdown" in bench.disk.disk.files()
    bench.disk.high_watermarks.clear()
    bench.disk.reload()
    assert bench.disk.high_watermarks[ORDERS] == 4
    assert bench.disk.take_intact_mark() == 7
    bench.disk.reload()
    assert bench.disk.take_intact_mark() == NO_EPOCH


def test_a_vote_survives_a_power_loss() -> None:
    bench = Bench()
    voted = QuorumState(4, NO_LEADER, VoterKey(2, b"disk-2"))
    bench.disk.quorum_state = voted
    bench.disk.cut_power(0, random.Random(1).randrange)
    assert bench.disk.quorum_state == voted


# ---- damage ----


def rotten(*, batches: int = 12) -> Bench:
    """A bit of the batch at offset 8 has flipped, in a segment that no start looks at."""
    bench = Bench(segment_bytes=LARGEST_BATCH_BYTES)
    bench.append(batches)
    bench.log.sync()
    bench.disk.on_registered(5)
    bench.disk.store_checkpoints()
    assert bench.disk.flip_bit(ORDERS, permille=1000 * 4 // batches + 1, bit=3)
    assert bench.log.rotten_from == 8
    return bench


def test_a_flipped_bit_is_never_served_and_the_next_process_cuts_there() -> None:
    bench = rotten()
    assert bench.log.read(6, END, 1)[0].base_offset == 6
    with pytest.raises(CorruptSegment) as caught:
        bench.log.read(8, END, 1)
    assert bench.disk.condemn(caught.value)
    bench.disk.reload()
    assert bench.log.log_end_offset == 8
    assert bench.log.rotten_from is None
    assert bench.judged() == []
    assert [recovery.repaired for recovery in bench.heard] == [True]
    assert bench.disk.take_intact_mark() == NO_EPOCH  # it may not keep its seats


def test_a_flipped_bit_that_nobody_read_is_still_there_after_a_restart() -> None:
    bench = rotten()
    bench.disk.reload()
    assert bench.log.rotten_from == 8
    assert bench.log.log_end_offset == 24
    assert bench.judged() == []
    assert bench.disk.take_intact_mark() == 5
    with pytest.raises(CorruptSegment):
        bench.log.read(8, END, 1)


def test_a_flipped_bit_that_was_cut_away_is_forgotten() -> None:
    bench = rotten()
    bench.log.truncate_to(6)
    assert bench.log.rotten_from is None
    assert bench.disk.complaints() == []


def test_a_bit_flips_only_below_the_recovery_point_on_disk_and_only_once() -> None:
    bench = Bench()
    bench.append(3)
    bench.log.sync()
    assert not bench.disk.flip_bit(ORDERS, permille=0, bit=0)
    bench.disk.store_checkpoints()
    assert bench.disk.flip_bit(ORDERS, permille=0, bit=0)
    assert not bench.disk.flip_bit(ORDERS, permille=900, bit=0)


def robbed() -> Bench:
    """The file of the first segment is gone, and nobody has noticed."""
    bench = Bench(segment_bytes=LARGEST_BATCH_BYTES)
    bench.append(12)
    bench.log.sync()
    bench.disk.on_registered(5)
    assert not bench.disk.lose_segment(ORDERS), "nothing tells yet where the log starts"
    bench.disk.store_checkpoints()
    assert bench.disk.lose_segment(ORDERS)
    assert not bench.disk.lose_segment(ORDERS)
    return bench


def test_a_lost_segment_is_missed_by_the_next_process_which_begins_anew() -> None:
    bench = robbed()
    assert bench.log.log_start_offset == 0
    bench.disk.reload()
    log = bench.disk.logs[ORDERS]
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert [recovery.repaired for recovery in bench.heard] == [True]
    assert bench.judged() == []
    assert bench.disk.take_intact_mark() == NO_EPOCH


def test_a_log_that_starts_where_its_first_file_does_breaks_a_rule() -> None:
    bench = robbed()
    with mutation.applied("M46"):
        bench.disk.reload()
    assert "starts at 6, not at one of (0,)" in bench.judged()[0]


def test_bytes_that_are_not_what_was_appended_are_complained_about() -> None:
    bench = rotten()
    bench.log.rotten_from = None
    with pytest.raises(CorruptSegment):
        bench.log.is_as_stored()
    assert "bad checksum" in bench.disk.complaints()[0]


@pytest.mark.parametrize("partial_bytes", [0, 1, 70])
def test_a_full_disk_refuses_and_works_again_when_there_is_space(partial_bytes) -> None:
    bench = Bench()
    bench.append(2)
    bench.disk.fill(partial_bytes)
    with pytest.raises(NoSpace):
        bench.append(1)
    assert bench.log.log_end_offset == 4
    assert len(whole(bench.log)) == 2
    bench.disk.store_checkpoints()
    bench.disk.heal()
    bench.append(1)
    assert bench.log.log_end_offset == 6
    assert bench.disk.complaints() == []


def test_of_a_fetch_that_does_not_fit_the_first_batches_are_kept() -> None:
    bench = Bench(segment_bytes=LARGEST_BATCH_BYTES)
    leader = SimLog(fsync=True)
    values = iter(range(1000))
    for _ in range(30):
        leader.append_as_leader(client_batch((next(values),)), 0)
    bench.log.append_as_follower(leader.batches[:1])
    bench.disk.disk.inject("create", error=errno.ENOSPC)  # the next segment
    with pytest.raises(NoSpace):
        bench.log.append_as_follower(leader.batches[1:])
    end = bench.log.log_end_offset
    assert 1 < end < 30
    assert bench.log.batches == leader.batches[:end]
    bench.log.append_as_follower(leader.batches[end:])
    assert whole(bench.log) == leader.batches


def test_after_a_failed_sync_nothing_goes_and_what_was_durable_stays() -> None:
    bench = Bench()
    bench.append(3)
    bench.log.sync()
    bench.append(3)
    bench.disk.fail_sync(0)
    with pytest.raises(DirectoryOffline):
        bench.log.sync()
    with pytest.raises(DirectoryOffline):
        bench.append(1)
    bench.disk.cut_power(0, lambda _: 0)
    assert bench.log.log_end_offset == 6
    assert bench.judged() == []


def test_a_deleted_topics_records_do_not_come_back_under_its_name() -> None:
    bench = Bench()
    bench.append(3)
    bench.log.sync()
    again = PartitionId(b"another topic id", 0)
    bench.disk.reload()
    log = bench.disk.log(again, "orders")
    assert log.log_end_offset == 0
    assert list(bench.disk.logs) == [again]
    assert any(path.partition("/")[0].endswith("-stray") for path in bench.disk.disk.files())


def test_a_new_disk_is_empty_and_ours() -> None:
    bench = Bench()
    bench.append(3)
    bench.disk.replace_data()
    assert bench.disk.logs == {}
    assert bench.disk.log(ORDERS, "orders").log_end_offset == 0
