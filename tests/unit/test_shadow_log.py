"""Shadows of logs: the same batches as the log, and digests that tell logs apart."""

from itertools import count

import pytest

from tidelog.core.types import PartitionId
from tidelog.sim.disk import SimDisk
from tidelog.sim.nodes.probes import Probe, attached
from tidelog.sim.nodes.view_log import Contents, ShadowLog
from tidelog.sim.recovery_facts import RESTART, Found, Recovery
from tidelog.sim.rules.recovery_rules import RecoveryKeepsWhatWasDurable
from tidelog.storage.config import LogConfig
from tidelog.storage.log import Log
from tidelog.wire.records import Record, encode


def open_log(disk):
    return Log.open(disk, "tides-0", LogConfig())


@pytest.fixture
def disk():
    made = SimDisk()
    made.make_dir("tides-0")
    return made


def contents():
    numbers = count(1)
    return Contents(lambda batch, header: tuple(next(numbers) for _ in range(header.record_count)))


def batch_of(*values):
    return encode([Record(place, 0, None, value) for place, value in enumerate(values)])


def append(shadow, epoch, *values):
    start = shadow.log.log_end_offset
    shadow.log.append_as_leader(batch_of(*values), epoch)
    for piece in shadow.log.read(start, shadow.log.log_end_offset, 1 << 20):
        shadow.append(shadow.contents.batches_in(piece))


def test_a_shadow_read_after_a_restart_has_the_digests_of_the_one_before(disk):
    shadow = ShadowLog(open_log(disk), contents())
    append(shadow, 0, b"a", b"b")
    append(shadow, 1, b"c")
    again = ShadowLog(open_log(disk), shadow.contents)
    again.load(shadow)
    assert list(again.batches) == list(shadow.batches)
    assert [again.chain_at(end) for end in (2, 3)] == [shadow.chain_at(end) for end in (2, 3)]
    assert again.chain_at(1) is None, "no batch ends there"


def test_the_same_records_in_another_epoch_have_another_digest(disk):
    other_disk = SimDisk()
    other_disk.make_dir("tides-0")
    known = contents()
    one, other = ShadowLog(open_log(disk), known), ShadowLog(open_log(other_disk), known)
    append(one, 0, b"a")
    append(other, 1, b"a")
    assert one.batch_at(0).content is other.batch_at(0).content
    assert one.chain_at(1) != other.chain_at(1)


def test_a_cut_shadow_ends_where_its_log_does(disk):
    shadow = ShadowLog(open_log(disk), contents())
    append(shadow, 0, b"a")
    before = shadow.chain_at(1)
    append(shadow, 0, b"b")
    shadow.log.truncate_to(1)
    shadow.follow_cut()
    assert shadow.batch_at(1) is None
    assert shadow.chain_at(1) == before


def test_deleted_records_leave_the_shadow_and_its_digests_stay(disk):
    shadow = ShadowLog(open_log(disk), contents())
    for value in (b"a", b"b", b"c"):
        append(shadow, 0, value)
    before = shadow.chain_at(3)
    shadow.log.raise_log_start(2)
    assert [batch.base_offset for batch in shadow.batches] == [2]
    assert shadow.chain_at(3) == before


def problem_after_crash(shadow, found):
    """What R19 says of a log that was opened again."""
    told = []
    judge = RecoveryKeepsWhatWasDurable(None, None, lambda rule, text: told.append(text))
    after = ShadowLog(found, shadow.contents)
    after.load(None)
    batches = Found(after.batches, found.log_start_offset, found.log_end_offset)
    partition = PartitionId(b"t" * 16, 0)
    judge.log_recovered(Recovery(1, partition, RESTART, shadow.written(), batches, ()))
    return told


def test_a_crash_may_bring_trimmed_records_back_with_the_log_start_before(disk):
    """The checkpoint of log starts is written at its own time: Kafka promises no more."""
    shadow = ShadowLog(open_log(disk), contents())
    for value in (b"a", b"b", b"c"):
        append(shadow, 0, value)
    shadow.log.raise_log_start(2)
    assert [batch.base_offset for batch in shadow.batches] == [2]
    assert problem_after_crash(shadow, open_log(disk)) == []


def test_records_that_come_back_are_those_that_were_trimmed(disk):
    shadow = ShadowLog(open_log(disk), contents())
    for value in (b"a", b"b", b"c"):
        append(shadow, 0, value)
    shadow.log.raise_log_start(2)
    other_disk = SimDisk()
    other_disk.make_dir("tides-0")
    other = ShadowLog(open_log(other_disk), shadow.contents)
    for value in (b"a", b"x", b"c"):
        append(other, 0, value)
    assert problem_after_crash(shadow, open_log(other_disk)) != []


def test_trimmed_records_that_were_cut_since_do_not_come_back(disk):
    shadow = ShadowLog(open_log(disk), contents())
    for value in (b"a", b"b"):
        append(shadow, 0, value)
    shadow.log.raise_log_start(2)
    assert not shadow.batches
    shadow.log.truncate_fully_and_start_at(1)
    shadow.follow_cut()
    append(shadow, 1, b"c")
    assert [batch.base_offset for batch in shadow.written().batches] == [0, 1]


class Ship:
    def sail(self):
        return "sails"


class Brig(Ship):
    pass


def loudly(original):
    return lambda ship: original(ship).upper()


def test_probes_stand_around_what_they_find_and_leave_it_as_it_was():
    with attached([Probe(Ship, "sail", loudly), Probe(Brig, "sail", loudly)]):
        assert Brig().sail() == "SAILS"
        assert "sail" in vars(Brig)
    assert Ship().sail() == Brig().sail() == "sails"
    assert "sail" not in vars(Brig), "it was inherited"


def test_a_probe_of_a_method_that_is_gone_says_so():
    with pytest.raises(AttributeError), attached([Probe(Ship, "sink", loudly)]):
        pass
    assert not hasattr(Ship, "sink")
