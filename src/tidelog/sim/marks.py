"""Marks: rare states by name, and how often a run has reached each.

A simulator that never reaches a state proves nothing about it. So every state worth reaching
has a name and a sentence here, every report says which ones were reached, and the long proof
fails when one of them was not (`tidelog sim run --require-marks`).
"""

from collections.abc import Mapping
from typing import Final

MARKS: Final[Mapping[str, str]] = {
    # Reconciling
    "log_truncated": "a follower cut off records that its leader does not have",
    "former_leader_truncated": "a former leader cut off records it had appended itself",
    "truncated_two_epochs": "one cut took records of two leader epochs or more",
    "truncated_below_high_watermark": "a follower cut below its own high watermark",
    "diverging_two_rounds": "two diverging answers of one leader, until the logs agreed",
    "diverging_epoch_only": "two logs differed by a leader epoch without records only",
    "fetch_answer_late": "an answer came after its fetch had been given up",
    "fetch_answer_overtaken": "an answer came when a later fetch had told another position",
    "fetch_answer_ignored": "an answer with records no longer fitted the log it came to",
    "fetch_fenced": "a fetch of an older leader epoch was refused (74)",
    "fetch_of_unknown_epoch": "a fetch knew a later leader epoch than its leader (75)",
    "fetch_of_former_incarnation": "a fetch sent before a restart arrived after it (KIP-903)",
    "fetch_out_of_range": "a follower lay outside of its leader's log and asked for its ends",
    "log_restarted": "a follower dropped its whole log to start where the leader's begins",
    "log_start_followed": "a follower raised its log start because its leader had",
    # Leading
    "leader_reelected": "a broker led two leader epochs in a row",
    "leader_missed_an_epoch": "a leader heard of its next epoch but one, not of the next",
    "epoch_without_records": "a leader epoch ended as it began, without a record",
    "new_leader_below_epoch_start": "a new leader did not know yet what was committed",
    "hw_lower_than_predecessor": "a new leader began below the high watermark before it",
    "follower_high_watermark_lowered": "a follower learned of a lower high watermark",
    "hw_frozen_by_min_isr": "records waited above the high watermark for a larger ISR",
    "hw_waits_for_pending_expand": "records were appended while a replica was about to join",
    "zombie_leader_appended": "a leader that had been replaced without knowing it appended",
    "zombie_leader_read": "a consumer read from a leader that had been replaced",
    # Producing
    "produce_parked_at_demotion": "a parked produce failed because its leader was replaced",
    "produce_parked_too_long": "a parked produce timed out; its records stayed in the log",
    "produce_below_min_isr": "a produce was refused for want of in-sync replicas (19)",
    "produce_out_of_order": "a produce was refused because of a gap in its sequence (45)",
    "duplicate_waited_for_commit": "a repeated produce waited for the first one's records",
    "duplicate_found_by_next_leader": "a later leader recognised what an earlier one appended",
    # In-sync replicas
    "isr_of_one": "the leader was left alone in the ISR",
    "expand_in_flight_when_fenced": "a replica was fenced while it was about to join the ISR",
    "change_in_flight_when_leader_fenced": "a leader was fenced before its proposal was decided",
    "isr_proposal_repeated": "an ISR proposal was sent again because no answer came",
    "isr_proposal_no_controller": "an ISR proposal reached a node that did not control (41)",
    "isr_proposal_former_incarnation": "an ISR proposal came from before a restart (77)",
    "isr_proposal_old_leader_epoch": "an ISR proposal of a former leader was refused (74)",
    "isr_proposal_old_partition_epoch": "an ISR proposal was overtaken by a change (95)",
    "isr_proposal_ineligible": "an ISR proposal named a replica that may not join (107)",
    "isr_proposal_hands_over": "an ISR proposal ended the leadership of who sent it (108)",
    "isr_proposal_deleted_topic": "an ISR proposal came after its topic was deleted (100)",
    "isr_answer_overtaken": "metadata told a leader of its ISR before the answer did",
    "isr_change_taken_back": "a leader gave up an ISR change that was certainly refused",
    # Elections
    "elr_elected": "with an empty ISR, an eligible leader replica was elected",
    "unclean_election": "a leader was elected that may lack committed records",
    "unclean_election_by_operator": "an operator asked for an unclean election and got it",
    "elected_below_min_isr": "a leader was elected with fewer in-sync replicas than min ISR",
    "partition_offline": "nobody was left who could lead a partition",
    "preferred_leader_by_balance": "the balance gave leadership back to a preferred leader",
    "preferred_leader_by_operator": "an operator's wish gave leadership to a preferred leader",
    # Assignments, topics, settings
    "reassignment_completed": "a partition moved to another set of replicas",
    "reassignment_dropped_leader": "a completed reassignment had no place for the leader",
    "reassignment_replaced": "a reassignment was given another goal on its way",
    "reassignment_adds_crashed_broker": "a replica was added on a broker that was down",
    "topic_recreated": "a topic was deleted and created again under its name",
    "topic_deleted_while_replica_down": "a topic was deleted while a broker with its log was down",
    "min_isr_raised_above_isr": "min ISR was raised above the ISR of the moment",
    # Brokers
    "restart_refused_within_session": "a restarted broker had to wait for its old session (101)",
    "restart_lost_seats": "a registration took the broker's seats in ISR or ELR away",
    "restart_kept_elr": "a broker came back with its log intact and stayed eligible",
    "heartbeat_of_former_incarnation": "a heartbeat came from before a restart (77)",
    "fenced_while_paused": "a broker was fenced while its process stood still",
    "fenced_though_alive": "a broker was fenced that was only cut off or slow",
    "fenced_by_hint": "a broker was fenced because its process was known to be gone",
    "hint_of_live_broker_ignored": "a connection closed, and the broker behind it was alive",
    "hint_of_former_incarnation": "a proof of death came when a successor had registered",
    "heartbeat_of_dead_broker": "a heartbeat came after its broker had died, and changed nothing",
    "wiped_replica_rejoined": "a replica with an empty disk earned its seat in the ISR again",
    "power_loss_lost_records": "a power loss took records that were not synced",
    "power_loss_lost_metadata": "a power loss took metadata entries that were not synced",
    # The quorum and the controller
    "vote_replayed_after_crash": "a voter started again bound by the vote it had given",
    "candidate_after_restart": "a node started again as a candidate, as it had been",
    "quorum_leader_after_restart": "the quorum's leader restarted and had to resign",
    "vote_granted_twice": "a voter gave its vote to the same candidate a second time",
    "vote_refused": "a voter refused a candidate",
    "pre_vote_refused": "a node asked whether it would be elected, and was told no",
    "quorum_hint_started_election": "a voter found the quorum's leader gone and campaigned",
    "split_vote": "two candidates campaigned in one quorum epoch",
    "check_quorum_resigned": "the quorum's leader resigned because too few fetched from it",
    "quorum_handed_over": "the quorum's leader resigned to stop, and named its heirs",
    "quorum_leader_with_open_entries": "a new quorum leader held entries of unknown fate",
    "metadata_truncated": "a node cut off metadata entries that were never committed",
    "metadata_snapshot_installed": "a node took a snapshot instead of the log",
    "snapshot_installed_while_serving": "a serving broker was moved forward by a snapshot",
    "snapshot_replaced_log_at_start": "a node found a snapshot that reached beyond its log",
    "two_active_controllers": "a controller was active before the one before it knew",
    "renounced_with_pending_answers": "a controller lost its claim with answers still open",
    "answered_after_the_claim": "a former controller told that its last wish was committed",
    "refused_after_the_claim": "a former controller told that its last wish never was",
    # Coordinators of transactions and groups
    "marker_from_stale_coordinator": "a leader refused an end marker of a former coordinator (52)",
    "marker_refused_old_epoch": "a leader refused an end marker of an older producer epoch (47)",
    "prepare_commit_at_coordinator_move": "a coordinator found a commit that was only decided",
    "pending_offsets_at_coordinator_move": "a coordinator found offsets of an open transaction",
    "offsets_told_unstable": "whoever asked for offsets had to wait for a transaction (88)",
    "coordinator_moved_while_rebalancing": "a group lost its coordinator in a rebalance",
    "member_expired": "a member of a group was not heard of for a whole session",
    "member_missed": "a member was out before its session ended, because its connection broke",
    "commit_refused_old_generation": "a member committed offsets when others had its partitions",
    "transactional_commit_refused_old_generation": "so did one in a transaction",
    "transaction_timed_out": "a coordinator ended a transaction that took too long",
    "end_txn_refused_old_epoch": "a producer of an older epoch wanted to end a transaction (90)",
    "producer_fenced": "a producer of an older epoch wanted to add a partition (90)",
    "ended_while_verified": "a transaction ended while a leader asked whether it goes on",
    "late_batch_refused": "a leader refused a batch of a transaction that is over",
    # Consumers
    "consumer_served_by_follower": "a consumer read from a follower in its rack",
    "consumer_told_offset_not_available": "a read had to wait for a new leader's knowledge (78)",
    "latest_told_offset_not_available": "so had the question where the log ends (78)",
    "consumer_fenced": "a consumer's leader epoch was older than the broker's (74)",
    "consumer_ahead_of_broker": "a consumer's leader epoch was newer than the broker's (75)",
    "consumer_out_of_range": "a consumer's position was not in the log any more",
    "latest_went_back": "after a loss that was allowed, the latest offset was lower than before",
    # Disks
    "corrupt_batch_found": "a read found a batch whose bytes had changed on the disk",
    "coordinator_started_over": "a coordinator's log refused a batch, and it was loaded again",
    "start_refused": "a node refused to start on what it found on its disk",
    "produce_refused_by_full_disk": "a leader without space refused a produce and went on serving",
    "follower_disk_full": "a follower had no space for what it fetched",
    "sync_failed": "a sync failed, and the log directory went offline for good",
    # The shell around the state machines
    "produces_gathered": "produces of several requests were appended in one write",
    "sync_overtaken": "a sync ended when a later one had ended before it",
    "sync_ended_after_a_cut": "a sync ended when the log it was about had been cut",
    "crash_between_write_and_sync": "a process ended with records written and not synced",
    "crash_amid_an_append": "a process ended in the middle of an append",
    "crash_amid_a_cut": "a process ended in the middle of a truncation",
    "crash_during_start": "a process ended before it served",
    "crash_during_stop": "a process ended in the middle of an orderly stop",
    "connection_lost_within_a_frame": "a connection broke when half of a frame had arrived",
    "fetch_session_refused": "a fetch named a session that its broker did not know",
    "coordinator_asked_while_loading": "a request waited for its coordinator to load",
}
"""Name → the state in one sentence. Only these can be marked."""


def all_counts(reached: Mapping[str, int]) -> dict[str, int]:
    """Every mark with its count, those never reached with 0, by name."""
    return dict(sorted({**dict.fromkeys(MARKS, 0), **reached}.items()))


def unreached(reached: Mapping[str, int]) -> list[str]:
    """In the order of the table."""
    return [name for name in MARKS if not reached.get(name)]
