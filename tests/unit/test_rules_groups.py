"""Rules about groups: each with what breaks it, and a near miss."""

from support.bench_books import Owned, written
from support.coordination_bench import GROUP, CoordinationBench
from support.rule_bench import PARTITION
from tidelog.core.coordination import ProducerStamp
from tidelog.core.errors import Error
from tidelog.core.events import MemberLeft
from tidelog.core.groups.records import (
    ClassicGroup,
    ClassicGroupValue,
    ClassicMemberValue,
    CommittedOffset,
    CurrentAssignment,
    CurrentAssignmentValue,
    OffsetCommit,
)
from tidelog.core.groups.requests import (
    ClientName,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    Heartbeat,
    HeartbeatResponse,
    SyncGroup,
)
from tidelog.sim.transaction_book import COMMIT

STAMP = ProducerStamp(7, 0)
TOPIC = b"inputs"


def generation(number: int, **shares: Owned) -> ClassicGroup:
    members = tuple(
        ClassicMemberValue(name, None, "", "", 0, 0, b"", written(share))
        for name, share in shares.items()
    )
    return ClassicGroup(GROUP, ClassicGroupValue("consumer", number, "range", None, 0, members))


def has(member: str, epoch: int, assigned: Owned, revoking: Owned = ()) -> CurrentAssignment:
    value = CurrentAssignmentValue(
        epoch,
        epoch - 1,
        0,
        ((TOPIC, assigned),) if assigned else (),
        ((TOPIC, revoking),) if revoking else (),
    )
    return CurrentAssignment(GROUP, member, value)


# -- G1


def test_a_generation_gives_no_partition_to_two_members():
    bench = CoordinationBench()
    bench.record(generation(1, anna=(0, 1), ben=(1,)))
    assert bench.broken == ["G1"]


def test_the_next_generation_may_give_it_to_another():
    bench = CoordinationBench()
    bench.record(generation(1, anna=(0, 1), ben=()))
    bench.record(generation(2, anna=(0,), ben=(1,)))
    assert bench.broken == []


def test_what_a_member_has_not_given_up_is_not_given_to_another():
    bench = CoordinationBench()
    bench.record(has("anna", 1, (0,), revoking=(1,)))
    bench.record(has("ben", 2, (1,)))
    assert bench.broken == ["G1"]


def test_what_a_member_has_given_up_may_be_given_to_another():
    bench = CoordinationBench()
    bench.record(has("anna", 1, (0,), revoking=(1,)))
    bench.record(has("anna", 2, (0,)), has("ben", 2, (1,)))
    bench.record(CurrentAssignment(GROUP, "anna", None))
    bench.record(has("ben", 3, (0, 1)))
    assert bench.broken == []


# -- G2


def test_an_offset_is_not_acknowledged_before_it_is_in_the_log():
    bench = CoordinationBench()
    bench.accepts(bench.up_to(3))
    assert bench.broken == ["G2"]


def test_an_acknowledged_offset_is_not_forgotten():
    bench = CoordinationBench()
    record = bench.up_to(3)
    bench.record(record)
    bench.accepts(record)
    bench.tells(-1)
    assert bench.broken == ["G2"]


def test_whoever_asked_before_a_commit_may_be_told_what_was_before_it():
    bench = CoordinationBench()
    bench.record(bench.up_to(3))
    before = bench.floor
    bench.record(bench.up_to(5))
    bench.tells(3, floor=before)
    bench.tells(5, floor=before)
    bench.tells(5)
    assert bench.broken == []
    bench.tells(3)
    assert bench.broken == ["G2"]


def test_a_commit_written_during_a_transaction_wins_over_it():
    bench = CoordinationBench()
    transaction = bench.begin()
    transaction.asked = COMMIT
    bench.record(bench.up_to(3, f"t{transaction.number}"), stamp=STAMP)
    bench.record(bench.up_to(5))
    bench.end(STAMP, commit=True)
    bench.tells(5)
    assert bench.broken == []
    bench.tells(3, f"t{transaction.number}")
    assert bench.broken == ["G2"]


def test_deleted_offsets_are_gone():
    bench = CoordinationBench()
    record = bench.up_to(3)
    bench.record(record)
    bench.record(OffsetCommit(GROUP, record.partition, None))
    bench.tells(-1)
    assert bench.broken == []
    bench.tells(3)
    assert bench.broken == ["G2"]


# -- G3


def test_an_old_generation_commits_nothing():
    bench = CoordinationBench()
    record = bench.up_to(3)
    bench.record(generation(2, anna=(0,)), record)
    bench.accepts(record, generation=1)
    assert bench.broken == ["G3"]


def test_a_commit_that_was_under_way_when_its_generation_ended_may_be_accepted():
    bench = CoordinationBench()
    record = bench.up_to(3)
    bench.record(generation(1, anna=(0,)), record)
    asked_at = bench.floor
    bench.record(generation(2, anna=(0,)))
    bench.accepts(record, generation=1, floor=asked_at)
    assert bench.broken == []


def test_an_old_member_epoch_commits_nothing():
    bench = CoordinationBench()
    record = bench.up_to(3)
    bench.record(has("member", 4, (0,)), record)
    bench.accepts(record, generation=4)
    assert bench.broken == []
    bench.accepts(record, generation=3)
    assert bench.broken == ["G3"]


# -- G4


def test_a_group_does_not_commit_what_nobody_has_processed():
    bench = CoordinationBench()
    processed = bench.up_to(3)
    skipping = OffsetCommit(GROUP, processed.partition, CommittedOffset(5, -1, "", 0))
    bench.record(processed, skipping)
    bench.accepts(processed)
    assert bench.broken == []
    bench.accepts(skipping)
    assert bench.broken == ["G4"]


# -- G5


def beats(bench: CoordinationBench, *at_ms: int, node: int = 1) -> None:
    for asked_ms in at_ms:
        heard = HeartbeatResponse(Error.NONE)
        bench.judge.member_heard(node, Heartbeat(GROUP, 1, "anna", None), heard, asked_ms)


def evicted(bench: CoordinationBench, at_ms: int, reason: str = "connection lost") -> None:
    bench.judge.member_left(1, MemberLeft(GROUP, "anna", reason), at_ms)


def test_a_member_in_its_rhythm_is_not_evicted_by_a_cut_connection():
    bench = CoordinationBench()
    beats(bench, 1_000, 1_100, 1_200)
    evicted(bench, 1_299)
    assert bench.broken == ["G5"]


def test_one_that_missed_a_heartbeat_may_be():
    bench = CoordinationBench()
    beats(bench, 1_000, 1_100, 1_200)
    evicted(bench, 1_300)
    assert bench.broken == []


def test_so_may_one_whose_session_is_over_or_who_was_heard_by_another_coordinator():
    bench = CoordinationBench()
    beats(bench, 1_000, 1_100, node=2)
    evicted(bench, 1_110)
    beats(bench, 1_000, 1_100)
    evicted(bench, 1_110, "session expired")
    assert bench.broken == []


def test_a_rebalance_is_no_rhythm_even_if_its_joins_are_never_answered():
    bench = CoordinationBench()
    beats(bench, 1_000, 1_100)
    bench.judge.member_joining(1, SyncGroup(GROUP, 1, "anna", None, None, None, ()))
    beats(bench, 1_900, 2_000)
    evicted(bench, 2_100)
    assert bench.broken == []


def test_a_coordinator_that_loaded_again_knows_no_rhythm():
    bench = CoordinationBench()
    committed = bench.up_to(3)
    bench.record(committed)
    bench.accepts(committed)
    beats(bench, 1_000, 1_400)
    bench.judge.coordinator_began(1, PARTITION)
    beats(bench, 1_500)
    evicted(bench, 1_600)
    assert bench.broken == []


def test_members_of_the_consumer_protocol_keep_the_rhythm_that_they_were_told():
    bench = CoordinationBench()
    answer = ConsumerHeartbeatResponse(
        Error.NONE, member_id="anna", member_epoch=1, heartbeat_interval_ms=50
    )
    request = ConsumerHeartbeat(
        GROUP, "anna", 1, None, None, -1, ClientName("", ""), None, None, None, None, ""
    )
    bench.judge.member_heard(1, request, answer, 1_000)
    evicted(bench, 1_049)
    assert bench.broken == ["G5"]
