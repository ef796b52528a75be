"""Committed offsets of groups: taken, refused, pending, deleted, expired, replayed."""

import pytest

from support.groups import (
    GROUP,
    WALL_OFFSET_MS,
    Ask,
    GroupBench,
    commit,
    fetch,
    heartbeat,
    join,
    leave,
    new_offset,
    stable_group,
    sync,
    transactional,
)
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import Error
from tidelog.core.groups.requests import (
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    ForgetPartitions,
    JoinProtocol,
    ListGroups,
)
from tidelog.core.groups.settings import GroupSettings

MANY = "m" * 4_097


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench()


def offsets(bench: GroupBench, *partitions: int, stable: bool = False) -> list[object]:
    """Offsets, or errors where there are some."""
    answer = bench.ask(fetch(*partitions, stable=stable)).response
    assert answer.error == Error.NONE
    return [each.error or each.offset for each in answer.offsets]


# -- commit and fetch


def test_what_was_committed_is_fetched(bench):
    assert bench.ask(commit(new_offset(5, "half way"))).response.errors == (Error.NONE,)
    (found,) = bench.ask(fetch(0)).response.offsets
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "half way")


def test_partitions_and_groups_without_offsets_are_no_errors(bench):
    assert offsets(bench, 0, 1) == [-1, -1]
    assert offsets(bench) == []
    bench.ask(commit(new_offset(5)))
    assert offsets(bench, 1, 0) == [-1, 5]


def test_all_offsets_are_fetched_when_none_is_named(bench):
    bench.ask(commit(new_offset(5, at=1), new_offset(6, at=0)))
    assert offsets(bench) == [6, 5]


def test_an_offset_may_go_back(bench):
    bench.ask(commit(new_offset(5)))
    bench.ask(commit(new_offset(2)))
    assert offsets(bench, 0) == [2]


def test_too_long_metadata_is_refused_for_its_partition_only(bench):
    answer = bench.ask(commit(new_offset(5, MANY), new_offset(6, at=1))).response
    assert answer.errors == (Error.OFFSET_METADATA_TOO_LARGE, Error.NONE)
    assert offsets(bench, 0, 1) == [-1, 6]


def test_metadata_is_measured_in_bytes(bench):
    assert bench.ask(commit(new_offset(5, "é" * 2_048))).response.errors == (Error.NONE,)
    too_large = bench.ask(commit(new_offset(5, "é" * 2_049))).response
    assert too_large.errors == (Error.OFFSET_METADATA_TOO_LARGE,)


def test_a_commit_of_which_nothing_is_taken_writes_nothing(bench):
    bench.ask(commit(new_offset(5, MANY)))
    assert bench.log == []
    assert bench.ask(ListGroups()).response.groups == ()


def test_members_commit_while_others_join_and_not_between_join_and_sync(bench):
    generation = stable_group(bench, "ann")
    bob = bench.ask(join(fresh="bob"))
    mine = commit(new_offset(5), member_id="ann", generation=generation)
    assert bench.ask(mine).error == Error.NONE
    bench.ask(join("ann"))
    assert bob.error == Error.NONE
    assert bench.ask(mine).error == Error.ILLEGAL_GENERATION
    theirs = mine._replace(generation=generation + 1)
    assert bench.ask(theirs).error == Error.REBALANCE_IN_PROGRESS
    bench.ask(sync("ann", generation + 1))
    assert bench.ask(theirs).error == Error.NONE


def test_a_consumer_without_a_group_protocol_commits_to_an_empty_group(bench):
    stable_group(bench, "ann")
    assert bench.ask(commit(new_offset(5))).error == Error.UNKNOWN_MEMBER_ID
    bench.ask(leave("ann"))
    assert bench.ask(commit(new_offset(5))).error == Error.NONE


def test_a_generation_is_unknown_where_there_are_only_offsets(bench):
    bench.ask(commit(new_offset(5)))
    request = commit(new_offset(6), member_id="ann", generation=1)
    assert bench.ask(request).error == Error.UNKNOWN_MEMBER_ID
    assert offsets(bench, 0) == [5]


def test_offsets_survive_a_failover(bench):
    generation = stable_group(bench, "ann")
    bench.ask(commit(new_offset(5), member_id="ann", generation=generation))
    bench.fail_over()
    assert offsets(bench, 0) == [5]


# -- transactions


def test_a_transactional_offset_counts_when_the_marker_says_so(bench):
    bench.ask(commit(new_offset(5)))
    bench.ask(transactional(new_offset(7), producer_id=1))
    assert bench.log[-1].stamp == (1, 0)
    assert offsets(bench, 0) == [5]
    assert offsets(bench, 0, 1, stable=True) == [Error.UNSTABLE_OFFSET_COMMIT, -1]
    bench.mark(1, commit=True)
    assert offsets(bench, 0, stable=True) == [7]


def test_an_aborted_transaction_leaves_what_was_committed(bench):
    bench.ask(commit(new_offset(5)))
    bench.ask(transactional(new_offset(7), new_offset(8, at=1), producer_id=1))
    bench.mark(1, commit=False)
    assert offsets(bench, 0, 1, stable=True) == [5, -1]


def test_a_marker_ends_only_the_offsets_of_its_producer(bench):
    bench.ask(transactional(new_offset(7), producer_id=1))
    bench.ask(transactional(new_offset(8), new_offset(9, at=1), producer_id=2))
    bench.mark(1, commit=True)
    assert offsets(bench, 0) == [7]
    assert offsets(bench, 0, stable=True) == [Error.UNSTABLE_OFFSET_COMMIT]
    bench.mark(2, commit=False)
    bench.mark(3, commit=True)
    assert offsets(bench, 0, 1, stable=True) == [7, -1]


def test_a_marker_ends_the_offsets_of_all_groups(bench):
    bench.ask(transactional(new_offset(7), producer_id=1))
    bench.ask(transactional(new_offset(8), producer_id=1)._replace(group_id="other"))
    bench.mark(1, commit=True)
    assert offsets(bench, 0) == [7]
    assert bench.ask(fetch(0, group_id="other")).response.offsets[0].offset == 8


def test_the_later_of_two_commits_in_the_log_wins_whenever_the_marker_comes(bench):
    bench.ask(transactional(new_offset(7), new_offset(70, at=1), producer_id=1))
    bench.ask(commit(new_offset(5)))
    bench.ask(transactional(new_offset(9), producer_id=2))
    bench.mark(2, commit=True)
    bench.mark(1, commit=True)
    assert offsets(bench, 0, 1) == [9, 70]
    bench.fail_over()
    assert offsets(bench, 0, 1) == [9, 70]


def test_a_plain_commit_written_during_a_transaction_wins_over_it(bench):
    bench.ask(transactional(new_offset(7), producer_id=1))
    bench.ask(commit(new_offset(5)))
    bench.mark(1, commit=True)
    assert offsets(bench, 0, stable=True) == [5]


def test_pending_offsets_survive_a_failover(bench):
    bench.ask(transactional(new_offset(7), producer_id=1))
    bench.fail_over()
    assert offsets(bench, 0, stable=True) == [Error.UNSTABLE_OFFSET_COMMIT]
    assert offsets(bench, stable=True) == [Error.UNSTABLE_OFFSET_COMMIT]
    bench.mark(1, commit=True)
    assert offsets(bench, 0) == [7]


def test_a_transaction_may_commit_for_a_group_without_saying_for_which_member(bench):
    stable_group(bench, "ann")
    assert bench.ask(transactional(new_offset(7), producer_id=1)).error == Error.NONE


@pytest.mark.parametrize(
    ("member_id", "generation", "error"),
    [
        ("ann", 1, Error.NONE),
        ("ann", 0, Error.ILLEGAL_GENERATION),
        ("ann", -1, Error.ILLEGAL_GENERATION),
        ("eve", 1, Error.UNKNOWN_MEMBER_ID),
        ("", 1, Error.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_transaction_that_names_a_member_is_checked(bench, member_id, generation, error):
    stable_group(bench, "ann")
    before = bench.machine.hard_state()
    request = transactional(
        new_offset(7), producer_id=1, member_id=member_id, generation=generation
    )
    assert bench.ask(request).error == error
    assert (bench.machine.hard_state() == before) == (error != Error.NONE)


def test_too_long_metadata_is_refused_in_a_transaction_too(bench):
    answer = bench.ask(transactional(new_offset(7, MANY), producer_id=1)).response
    assert answer.errors == (Error.OFFSET_METADATA_TOO_LARGE,)
    assert offsets(bench, 0, stable=True) == [-1]


# -- deleting


def delete(bench: GroupBench, *partitions: TopicPartition) -> Ask:
    return bench.ask(DeleteOffsets(GROUP, partitions))


def test_offsets_of_topics_that_members_read_are_not_deleted(bench):
    generation = stable_group(bench, "ann")
    old = new_offset(6, topic="invoices")
    bench.ask(commit(new_offset(5), old, member_id="ann", generation=generation))
    answer = delete(bench, TopicPartition("orders", 0), TopicPartition("invoices", 0)).response
    assert answer.errors == (Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE)
    assert offsets(bench) == [5]
    bench.ask(leave("ann"))
    delete(bench, TopicPartition("orders", 0))
    assert offsets(bench) == []


def test_offsets_of_a_group_of_others_than_consumers_are_not_deleted_while_it_lives(bench):
    token = bench.ask(join(fresh="ann", protocol_type="connect"))
    bench.pass_time(0)
    assert token.error == Error.NONE
    assert delete(bench, TopicPartition("orders", 0)).error == Error.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    "papers",
    [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1\0\x20order", b"\0\1\0\0\0\1\0\1\xff"],
)
def test_consumers_whose_papers_cannot_be_read_may_read_any_topic(bench, papers):
    bench.ask(commit(new_offset(5)))
    bench.ask(join(fresh="ann", protocols=(JoinProtocol("range", papers),)))
    bench.pass_time(0)
    answer = delete(bench, TopicPartition("orders", 0)).response
    assert answer.errors == (Error.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_offsets_of_no_group_are_not_found(bench):
    assert delete(bench, TopicPartition("orders", 0)).error == Error.GROUP_ID_NOT_FOUND


def test_a_deleted_offset_stays_deleted_when_a_transaction_commits_it_later(bench):
    bench.ask(transactional(new_offset(7), producer_id=1))
    empty = GroupBench().machine.hard_state()
    delete(bench, TopicPartition("orders", 0))
    assert bench.machine.hard_state() == empty
    bench.mark(1, commit=True)
    assert offsets(bench, 0, stable=True) == [-1]
    assert bench.replayed().hard_state() == bench.machine.hard_state()


def test_a_deleted_group_is_gone_with_its_offsets(bench):
    generation = stable_group(bench, "ann")
    bench.ask(commit(new_offset(5), member_id="ann", generation=generation))
    assert bench.ask(DeleteGroup(GROUP)).error == Error.NON_EMPTY_GROUP
    bench.ask(leave("ann"))
    assert bench.ask(DeleteGroup(GROUP)).error == Error.NONE
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Dead"
    assert bench.ask(DeleteGroup(GROUP)).error == Error.GROUP_ID_NOT_FOUND
    bench.fail_over()
    assert bench.ask(ListGroups()).response.groups == ()
    assert offsets(bench, 0) == [-1]


def test_a_group_with_an_open_transaction_is_not_deleted(bench):
    bench.ask(transactional(new_offset(7), producer_id=1))
    assert bench.ask(DeleteGroup(GROUP)).error == Error.NON_EMPTY_GROUP
    bench.mark(1, commit=True)
    assert bench.ask(DeleteGroup(GROUP)).error == Error.NONE
    assert offsets(bench, 0) == [-1]


def test_no_group_keeps_offsets_of_a_deleted_topic(bench):
    bench.ask(commit(new_offset(5), new_offset(6, topic="invoices")))
    bench.ask(commit(new_offset(5), group_id="other"))
    bench.ask(transactional(new_offset(7, at=3), producer_id=1))
    bench.tell(ForgetPartitions("orders"))
    bench.mark(1, commit=True)
    assert offsets(bench) == [6]
    assert bench.ask(fetch(group_id="other")).response.offsets == ()
    bench.tell(ForgetPartitions("never heard of"))


# -- expiry


def expiring(retention_ms: int = 100_000) -> GroupBench:
    return GroupBench(
        GroupSettings(
            initial_rebalance_delay_ms=0,
            offsets_retention_ms=retention_ms,
            offsets_retention_check_interval_ms=10_000,
            max_session_timeout_ms=10_000_000,
        )
    )


def test_offsets_that_nobody_comes_back_for_expire():
    bench = expiring()
    bench.ask(commit(new_offset(5)))
    bench.ask(commit(_dated(new_offset(6, at=1), 30_000)))
    bench.pass_time(110_000)
    assert offsets(bench, 0, 1) == [-1, 6]
    bench.pass_time(30_000)
    assert bench.ask(ListGroups()).response.groups == ()
    assert bench.replayed().hard_state() == bench.machine.hard_state()


def test_offsets_of_a_group_with_members_do_not_expire_and_then_count_from_its_end():
    bench = expiring()
    token = bench.ask(join(fresh="ann", session_timeout_ms=10_000_000))
    bench.pass_time(0)
    bench.ask(sync("ann", token.response.generation))
    bench.ask(commit(new_offset(5), member_id="ann", generation=token.response.generation))
    bench.pass_time(1_000_000)
    assert offsets(bench, 0) == [5]
    bench.ask(leave("ann"))
    bench.pass_time(90_000)
    assert offsets(bench, 0) == [5]
    bench.fail_over()
    bench.pass_time(20_000)
    assert offsets(bench, 0) == [-1]
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Dead"
    bench.fail_over()
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Dead"


def test_offsets_with_an_open_transaction_do_not_expire():
    bench = expiring()
    bench.ask(commit(new_offset(5)))
    bench.ask(transactional(new_offset(7), producer_id=1))
    bench.pass_time(200_000)
    assert offsets(bench, 0) == [5]
    bench.mark(1, commit=False)
    bench.pass_time(10_000)
    assert offsets(bench, 0) == [-1]


def test_an_empty_group_without_offsets_is_forgotten():
    bench = expiring()
    stable_group(bench, "ann")
    bench.ask(leave("ann"))
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Empty"
    bench.pass_time(10_000)
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Dead"


def test_an_empty_group_is_not_forgotten_while_somebody_is_about_to_join():
    bench = expiring()
    stable_group(bench, "ann")
    bench.ask(leave("ann"))
    late = {"needs_known_member_id": True, "session_timeout_ms": 60_000}
    bench.ask(join(fresh="bob", **late))
    bench.pass_time(10_000)
    assert bench.ask(join("bob", **late)).waits


def test_a_group_may_end_in_the_moment_in_which_it_is_looked_at():
    bench = expiring()
    bench.pass_time(9_000)
    generation = stable_group(bench, "ann")
    bench.pass_time(1_000)
    bench.ask(heartbeat("ann", generation))
    bench.pass_time(10_000)
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Dead"
    assert bench.replayed().hard_state() == bench.machine.hard_state()


def _dated(offset, after_ms):
    value = offset.value._replace(commit_timestamp_ms=WALL_OFFSET_MS + after_ms)
    return offset._replace(value=value)


# -- looking at groups


def test_offsets_alone_make_an_empty_group(bench):
    bench.ask(commit(new_offset(5)))
    (group,) = bench.ask(ListGroups()).response.groups
    assert group == (GROUP, "", "Empty", "classic")
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Empty"


def test_groups_are_listed_once_with_what_they_are(bench):
    generation = stable_group(bench, "ann")
    bench.ask(commit(new_offset(5), member_id="ann", generation=generation))
    (group,) = bench.ask(ListGroups()).response.groups
    assert group == (GROUP, "consumer", "Stable", "classic")
