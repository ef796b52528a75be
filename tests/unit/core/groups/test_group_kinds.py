"""A group id is classic or consumer, and an empty group may become the other; offsets stay."""

import pytest

from support.consumer_groups import JOIN, PLAIN, Topics
from support.groups import (
    GROUP,
    Ask,
    GroupBench,
    commit,
    fetch,
    heartbeat,
    join,
    leave,
    new_offset,
    stable_group,
    transactional,
)
from tidelog.core.errors import Error
from tidelog.core.groups.records import ClassicGroup
from tidelog.core.groups.requests import (
    ConnectionLost,
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    ListGroups,
)
from tidelog.core.groups.settings import GroupSettings


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench(topics=Topics(a=2))


def beat(bench: GroupBench, member_id: str = "con", epoch: int = 0, **changed: object) -> Ask:
    fields = {**(JOIN if epoch == 0 else {}), **changed}
    request = PLAIN._replace(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)
    return bench.ask(request)


def kinds(bench: GroupBench) -> list[tuple[str, str]]:
    return [(each.group_type, each.state) for each in bench.ask(ListGroups()).response.groups]


def offset(bench: GroupBench) -> int:
    return int(bench.ask(fetch(0)).response.offsets[0].offset)


def test_an_empty_classic_group_becomes_a_consumer_group(bench):
    generation = stable_group(bench, "ann")
    bench.ask(commit(new_offset(5), member_id="ann", generation=generation))
    bench.ask(leave("ann"))
    assert beat(bench).error == Error.NONE
    assert kinds(bench) == [("consumer", "Stable")]
    assert offset(bench) == 5
    (tombstone,) = [
        each
        for each in bench.log[-1].records
        if isinstance(each, ClassicGroup) and each.value is None
    ]
    assert tombstone == bench.log[-1].records[0]
    bench.fail_over()
    assert kinds(bench) == [("consumer", "Stable")]


def test_an_empty_consumer_group_becomes_a_classic_group(bench):
    epoch = beat(bench).response.member_epoch
    bench.ask(commit(new_offset(5), member_id="con", generation=epoch))
    beat(bench, epoch=-1)
    assert kinds(bench) == [("consumer", "Empty")]
    stable_group(bench, "ann")
    assert kinds(bench) == [("classic", "Stable")]
    assert offset(bench) == 5
    bench.fail_over()
    assert kinds(bench) == [("classic", "Stable")]


def test_an_id_that_is_given_out_makes_the_group_classic_already(bench):
    beat(bench)
    beat(bench, epoch=-1)
    token = bench.ask(join(fresh="ann", needs_known_member_id=True))
    assert token.error == Error.MEMBER_ID_REQUIRED
    assert kinds(bench) == [("classic", "Empty")]


def test_a_group_with_members_stays_what_it_is(bench):
    stable_group(bench, "ann")
    refused = beat(bench).response
    assert refused.error == Error.GROUP_ID_NOT_FOUND
    assert "classic" in refused.message
    assert bench.ask(DescribeConsumerGroup(GROUP)).error == Error.GROUP_ID_NOT_FOUND
    assert kinds(bench) == [("classic", "Stable")]


def test_a_consumer_group_with_members_takes_no_classic_ones(bench):
    beat(bench)
    assert bench.ask(join(fresh="ann")).error == Error.INCONSISTENT_GROUP_PROTOCOL
    assert bench.ask(heartbeat("con", 1)).error == Error.UNKNOWN_MEMBER_ID
    assert bench.ask(leave("con")).error == Error.UNKNOWN_MEMBER_ID
    assert bench.ask(DescribeGroup(GROUP)).response.state == "Dead"
    assert bench.ask(DeleteGroup(GROUP)).error == Error.NON_EMPTY_GROUP
    assert kinds(bench) == [("consumer", "Stable")]


def test_who_is_refused_converts_nothing(bench):
    stable_group(bench, "ann")
    bench.ask(leave("ann"))
    assert beat(bench, epoch=7).error != Error.NONE
    assert kinds(bench) == [("classic", "Empty")]
    beat(bench)
    beat(bench, epoch=-1)
    written = len(bench.log)
    assert bench.ask(join("eve")).error == Error.UNKNOWN_MEMBER_ID
    assert kinds(bench) == [("consumer", "Empty")]
    assert len(bench.log) == written


def test_commits_to_a_consumer_group_carry_its_member_epoch(bench):
    epoch = beat(bench).response.member_epoch
    mine = commit(new_offset(5), member_id="con", generation=epoch)
    assert bench.ask(mine._replace(generation=epoch + 1)).error == Error.STALE_MEMBER_EPOCH
    assert bench.ask(mine._replace(member_id="eve")).error == Error.UNKNOWN_MEMBER_ID
    assert offset(bench) == -1
    assert bench.ask(mine).error == Error.NONE
    assert offset(bench) == 5


def test_a_transaction_may_commit_for_a_consumer_group_without_naming_a_member(bench):
    beat(bench)
    assert bench.ask(transactional(new_offset(7), producer_id=1)).error == Error.NONE
    bench.mark(1, commit=True)
    assert offset(bench) == 7


def test_a_broken_connection_is_told_to_whoever_holds_the_group(bench):
    beat(bench)
    bench.tell(ConnectionLost(GROUP, "con", client_is_there=False))
    bench.pass_time(10_500)
    assert kinds(bench) == [("consumer", "Empty")]


def test_an_empty_consumer_group_is_deleted_or_expires():
    settings = GroupSettings(
        initial_rebalance_delay_ms=0,
        offsets_retention_ms=100_000,
        offsets_retention_check_interval_ms=10_000,
    )
    bench = GroupBench(settings, Topics(a=2))
    for _ in range(2):
        epoch = beat(bench).response.member_epoch
        bench.ask(commit(new_offset(5), member_id="con", generation=epoch))
        beat(bench, epoch=-1)
        assert kinds(bench) == [("consumer", "Empty")]
        if bench.now_ms < 100_000:
            assert bench.ask(DeleteGroup(GROUP)).error == Error.NONE
        bench.pass_time(120_000)
        assert kinds(bench) == []
        assert offset(bench) == -1
    bench.fail_over()
    assert kinds(bench) == []
