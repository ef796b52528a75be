"""Rules about the metadata quorum."""

from support.rule_bench import Bench, key
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.quorum.messages import LeaderChange, VotersRecord
from tidelog.core.types import LogEntry


def entry(offset: int, epoch: int, *records: object, control: bool = False) -> LogEntry:
    return LogEntry(offset, epoch, records or (r.NoOp(),), control)


# -- K01, K02


def test_two_leaders_in_one_epoch_are_reported():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.lead_quorum(2, 2, 0)
    assert bench.broken == []
    bench.judge.quorum_leader(3, 2, 0)
    assert bench.broken == ["K01"]


def test_a_second_vote_in_an_epoch_is_reported_also_after_a_crash():
    bench = Bench()
    bench.store(2, 1, voted=2)
    bench.store(1, 1, voted=2)
    bench.judge.vote_sent(1, 1, key(2))
    bench.judge.vote_sent(1, 1, key(2))  # the same answer again
    assert bench.broken == []
    bench.stop(1, "power_loss")
    bench.stopped.clear()
    bench.judge.vote_sent(1, 1, key(3))
    assert "K01" in bench.broken


def test_a_vote_in_the_next_epoch_is_a_new_vote():
    bench = Bench()
    for epoch, candidate in ((1, 2), (2, 3)):
        bench.store(candidate, epoch, voted=candidate)
        bench.store(1, epoch, voted=candidate)
        bench.judge.vote_sent(1, epoch, key(candidate))
    assert bench.broken == []


def test_a_vote_that_is_told_before_it_is_stored_is_reported():
    bench = Bench()
    bench.store(2, 1, voted=2)
    bench.store(1, 1)
    bench.judge.vote_sent(1, 1, key(2))
    assert bench.broken == ["K02"]


def test_an_epoch_that_falls_on_disk_is_reported():
    bench = Bench()
    bench.store(1, 1, voted=1)
    bench.store(1, 0)
    assert bench.broken == ["K02"]


def test_forgetting_vote_or_leader_within_an_epoch_is_reported():
    bench = Bench()
    bench.store(1, 1, voted=1)
    bench.store(2, 1, voted=1)
    bench.store(2, 1, leader=1, voted=1)
    assert bench.broken == []
    bench.store(2, 1, leader=1)
    assert bench.broken == ["K02"]
    other = Bench()
    other.store(1, 1, voted=1)
    other.store(2, 1, leader=1)
    other.store(2, 1)
    assert other.broken == ["K02"]


def test_a_vote_whose_write_failed_may_be_stored_or_not():
    bench = Bench()
    bench.store(2, 1, voted=2)
    bench.store(3, 1, voted=3)
    bench.store(1, 1)
    bench.store(1, 1, voted=2)
    bench.judge.quorum_state_unsure(1)
    bench.store(1, 1, voted=3)
    assert bench.broken == []
    bench.store(1, 1, voted=2)
    assert "K02" in bench.broken, "the last write did not fail"


# -- K03, K04


def test_two_entries_at_one_offset_of_one_epoch_are_reported():
    bench = Bench()
    bench.judge.metadata_appended(1, entry(0, 1))
    bench.judge.metadata_appended(2, entry(0, 1))
    bench.judge.metadata_appended(3, entry(0, 2, r.Topic("a", b"a")))
    assert bench.broken == []
    bench.judge.metadata_appended(3, entry(0, 1, r.Topic("a", b"a")))
    assert bench.broken == ["K03"]


def test_the_same_entry_after_different_epochs_is_reported():
    bench = Bench()
    for node, first_epoch in ((1, 1), (2, 2)):
        bench.judge.metadata_appended(node, entry(0, first_epoch))
    bench.judge.metadata_appended(1, entry(1, 3))
    assert bench.broken == []
    bench.judge.metadata_appended(2, entry(1, 3))
    assert bench.broken == ["K03"]


def test_a_leader_that_cuts_its_log_is_reported():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.judge.metadata_appended(1, entry(0, 1))
    bench.judge.metadata_truncated(2, 0, 0)
    assert bench.broken == []
    bench.judge.metadata_truncated(1, 0, 0)
    assert bench.broken == ["K03"]


def test_a_former_leader_may_cut_its_log():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.judge.metadata_appended(1, entry(0, 1))
    bench.lead_quorum(2, 2, 0)
    bench.store(1, 2, leader=2)
    bench.judge.metadata_truncated(1, 0, 0)
    assert bench.broken == []


def committed_in_epoch_one() -> Bench:
    """Nodes 1 and 2 of three hold two entries of epoch 1, both committed."""
    bench = Bench()
    bench.quorum(1, 2, 3)
    bench.lead_quorum(1, 1, 0)
    for offset in range(2):
        for node in (1, 2):
            bench.judge.metadata_appended(node, entry(offset, 1))
    bench.judge.quorum_high_watermark(1, 2)
    for offset in range(2):
        bench.judge.metadata_committed(1, entry(offset, 1))
    assert bench.broken == []
    return bench


def test_a_leader_without_a_committed_entry_is_incomplete():
    bench = committed_in_epoch_one()
    bench.lead_quorum(3, 2, 1)
    assert bench.broken == ["K04"]


def test_a_leader_with_another_entry_in_place_of_a_committed_one_is_incomplete():
    bench = committed_in_epoch_one()
    bench.judge.metadata_appended(3, entry(0, 0))
    bench.judge.metadata_appended(3, entry(1, 0))
    bench.lead_quorum(3, 2, 2)
    assert bench.broken == ["K04"]


def test_a_leader_elected_late_in_an_old_epoch_owes_nothing_to_later_ones():
    bench = committed_in_epoch_one()
    for offset in range(2):
        bench.judge.metadata_appended(3, entry(offset, 1))
    bench.store(3, 2, voted=3)
    bench.lead_quorum(2, 3, 2)
    bench.judge.metadata_appended(2, entry(2, 3))
    bench.judge.metadata_appended(1, entry(2, 3))
    bench.judge.quorum_high_watermark(2, 3)
    bench.judge.quorum_leader(3, 2, 2)  # votes of epoch 2 that were long on their way
    assert bench.broken == []


# -- K05, K06, K07


def test_two_nodes_applying_different_entries_are_reported():
    bench = committed_in_epoch_one()
    bench.judge.metadata_committed(2, entry(0, 1))
    assert bench.broken == []
    bench.judge.metadata_committed(2, entry(1, 1, r.Topic("a", b"a")))
    assert bench.broken == ["K05"]


def test_skipping_or_repeating_an_entry_is_reported():
    bench = committed_in_epoch_one()
    bench.judge.metadata_committed(1, entry(0, 1))
    assert bench.broken == ["K05"]
    other = committed_in_epoch_one()
    other.judge.snapshot_installed(3, 0, MetadataImage())
    other.judge.metadata_committed(3, entry(1, 1))
    assert other.broken == ["K05"]


def test_a_restarted_node_applies_everything_again():
    bench = committed_in_epoch_one()
    bench.stop(1)
    bench.judge.metadata_committed(1, entry(0, 1))
    bench.judge.metadata_committed(1, entry(1, 1))
    assert bench.broken == []


def test_applying_what_no_leader_committed_is_reported():
    bench = committed_in_epoch_one()
    bench.judge.metadata_appended(1, entry(2, 1))
    bench.judge.metadata_committed(1, entry(2, 1))
    assert bench.broken == ["K05"]


def test_a_high_watermark_that_falls_on_a_node_is_reported():
    bench = committed_in_epoch_one()
    bench.judge.quorum_high_watermark(2, 2)
    bench.judge.quorum_high_watermark(2, 1)
    assert bench.broken == ["K06"]


def test_a_restarted_node_may_begin_with_a_lower_high_watermark():
    bench = committed_in_epoch_one()
    bench.judge.quorum_high_watermark(2, 2)
    bench.stop(2)
    bench.judge.quorum_high_watermark(2, 1)
    assert bench.broken == []


def test_cutting_below_the_high_watermark_is_reported():
    bench = committed_in_epoch_one()
    bench.judge.quorum_high_watermark(2, 2)
    bench.judge.metadata_truncated(2, 2, 2)
    assert bench.broken == []
    bench.judge.metadata_truncated(2, 1, 2)
    assert bench.broken == ["K06"]


def test_committing_an_old_epochs_entry_by_counting_is_reported():
    bench = committed_in_epoch_one()
    bench.judge.metadata_appended(1, entry(2, 1))
    bench.judge.metadata_appended(2, entry(2, 1))
    bench.lead_quorum(2, 2, 3)
    bench.judge.metadata_appended(2, entry(3, 2, LeaderChange(2, (1, 2, 3), (2, 1)), control=True))
    bench.judge.quorum_high_watermark(2, 3)
    assert bench.broken == ["K07"]


def test_committing_without_a_majority_is_reported():
    bench = committed_in_epoch_one()
    bench.judge.metadata_appended(3, entry(0, 1))
    bench.judge.metadata_appended(1, entry(2, 1))
    bench.judge.quorum_high_watermark(1, 3)
    assert bench.broken == ["K07"]


def test_a_majority_with_an_entry_of_the_own_epoch_commits():
    bench = committed_in_epoch_one()
    bench.lead_quorum(2, 2, 2)
    for node in (2, 3):
        bench.judge.metadata_appended(node, entry(2, 2))
    bench.judge.quorum_high_watermark(2, 3)
    assert bench.broken == []


# -- K08, K09, K10


def test_fetching_beyond_what_is_synced_is_reported():
    bench = Bench()
    bench.judge.quorum_fetch_sent(2, 5, 5)
    assert bench.broken == []
    bench.judge.quorum_fetch_sent(2, 6, 5)
    assert bench.broken == ["K08"]


def test_an_epoch_that_nobody_stood_for_is_reported():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.store(2, 1, leader=1)
    bench.store(3, 2)  # as if asking for pre-votes had made it one
    assert bench.broken == ["K09"]


def test_an_epoch_that_skips_numbers_is_reported():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.store(2, 3, voted=2)
    assert bench.broken == ["K09"]


def test_a_resigned_leader_moves_on_by_itself():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.store(1, 2)
    bench.store(2, 2)
    bench.store(2, 3, voted=2)
    assert bench.broken == []


def test_a_leader_that_goes_on_writing_without_a_majority_is_reported():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.lead_quorum(2, 2, 0)
    for offset in range(20):
        bench.now_ms += 500
        bench.judge.metadata_appended(1, entry(offset, 1))
    assert bench.broken == ["K10"]


def test_a_leader_that_stops_in_time_or_wakes_from_a_pause_is_fine():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.lead_quorum(2, 2, 0)
    bench.now_ms = 2_500
    bench.judge.metadata_appended(1, entry(0, 1))
    bench.now_ms = 60_000
    bench.judge.metadata_appended(1, entry(1, 1))
    bench.judge.metadata_appended(2, entry(0, 2))
    assert bench.broken == []


# -- K20


def voters(offset: int, epoch: int, *nodes: int) -> LogEntry:
    return entry(offset, epoch, VotersRecord(tuple(key(node) for node in nodes)), control=True)


def test_changing_two_voters_at_once_is_reported():
    bench = Bench()
    bench.judge.metadata_appended(1, voters(0, 1, 1, 2, 3))
    bench.judge.metadata_appended(1, voters(1, 1, 1, 2, 4))
    assert bench.broken == ["K20"]


def test_a_change_before_the_last_one_is_committed_is_reported():
    bench = Bench()
    bench.lead_quorum(1, 1, 0)
    bench.judge.metadata_appended(1, voters(0, 1, 1, 2, 3))
    bench.judge.quorum_high_watermark(1, 1)
    bench.judge.metadata_appended(1, voters(1, 1, 1, 2, 3, 4))
    assert bench.broken == []
    bench.judge.metadata_appended(1, voters(2, 1, 1, 2, 3, 4, 5))
    assert bench.broken == ["K20"]


def test_a_truncated_change_never_happened():
    bench = Bench()
    bench.judge.metadata_appended(1, voters(0, 1, 1, 2, 3))
    bench.judge.metadata_appended(1, voters(1, 1, 1, 2, 3, 4))
    bench.judge.metadata_truncated(1, 1, 1)
    bench.judge.metadata_appended(1, voters(1, 2, 1, 2))
    assert bench.broken == []
