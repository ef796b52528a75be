"""What a group coordinator refuses: the right error, and nothing has changed."""

import socket
from types import SimpleNamespace

import pytest

from e2e.groups.member import until
from support.live import GUARD_S
from tidelog.core.errors import Error
from tidelog.testing import Cluster
from tidelog.wire.protocol import RequestHeader, decode_response, encode_request
from tidelog.wire.protocol.schemas import consumer_group_heartbeat_request as beat
from tidelog.wire.protocol.schemas import delete_groups_request as delete
from tidelog.wire.protocol.schemas import describe_groups_request as describe
from tidelog.wire.protocol.schemas import find_coordinator_request as find
from tidelog.wire.protocol.schemas import heartbeat_request as heartbeat
from tidelog.wire.protocol.schemas import join_group_request as join
from tidelog.wire.protocol.schemas import leave_group_request as leave
from tidelog.wire.protocol.schemas import offset_commit_request as commit
from tidelog.wire.protocol.schemas import offset_delete_request as offset_delete
from tidelog.wire.protocol.schemas import offset_fetch_request as fetch
from tidelog.wire.protocol.schemas import sync_group_request as sync
from tidelog.wire.protocol.schemas.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)

TOPIC = "orders"
OLD, NEW, NOBODYS = "old-orders", "new-orders", "no-such-group"
COMMITTED = 5
MINUTE_MS = 60_000
LARGEST_METADATA = 4096


class Line:
    """A connection that stays: one that a member's words came through must not break."""

    def __init__(self, address):
        self._socket = socket.create_connection(address, timeout=GUARD_S)
        self._stream = self._socket.makefile("rb")
        self._asked = 0

    def ask(self, request, version):
        self._asked += 1
        header = RequestHeader(request.__api_key__, version, self._asked, "by-hand")
        frame = b"".join(encode_request(header, request))
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = self._stream.read(int.from_bytes(self._stream.read(4), "big"))
        return decode_response(answer, request.__api_key__, version)[1]

    def close(self):
        self._stream.close()
        self._socket.close()


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as cluster:
        cluster.topic(TOPIC, 1)
        yield cluster


@pytest.fixture(scope="module")
def lines(cluster):
    """To every broker."""
    lines = {broker: Line(cluster.address(broker)) for broker in cluster.brokers}
    yield lines
    for line in lines.values():
        line.close()


def coordinator_of(lines, group_id):
    request = find.FindCoordinatorRequest(coordinator_keys=[group_id])

    def found():
        (coordinator,) = lines[1].ask(request, 4).coordinators
        return coordinator.node_id if coordinator.error_code == Error.NONE else None

    until(found, f"{group_id} has a coordinator")
    return found()


@pytest.fixture(scope="module")
def stage(lines):
    """A classic group and a new one, each with one member, and one offset committed."""
    old, new = lines[coordinator_of(lines, OLD)], lines[coordinator_of(lines, NEW)]
    first = old.ask(joining(), 9)
    assert first.error_code == Error.MEMBER_ID_REQUIRED
    joined = old.ask(joining(member_id=first.member_id), 9)
    assert joined.error_code == Error.NONE
    assigned = sync.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = old.ask(syncing(joined.generation_id, joined.member_id, assignments=[assigned]), 5)
    assert synced.error_code == Error.NONE
    entered = new.ask(beating(rebalance_timeout_ms=MINUTE_MS, subscribed_topic_names=[TOPIC],
                              topic_partitions=[]), 1)  # fmt: skip
    assert entered.error_code == Error.NONE
    stage = SimpleNamespace(
        old=old,
        new=new,
        other=next(line for line in lines.values() if line is not old),
        member=joined.member_id,
        generation=joined.generation_id,
        new_member=entered.member_id,
        epoch=entered.member_epoch,
    )
    for line, group_id, number, member in (
        (old, OLD, stage.generation, stage.member),
        (new, NEW, stage.epoch, stage.new_member),
    ):
        assert error_of(line.ask(committing(group_id, number, member), 9)) == Error.NONE
    return stage


# -- requests


def joining(**changes):
    protocol = join.JoinGroupRequestProtocol(name="range", metadata=b"mine")
    wanted = {
        "group_id": OLD,
        "session_timeout_ms": MINUTE_MS,
        "rebalance_timeout_ms": MINUTE_MS,
        "protocol_type": "consumer",
        "protocols": [protocol],
    }
    return join.JoinGroupRequest(**wanted | changes)


def syncing(generation, member, **changes):
    return sync.SyncGroupRequest(
        group_id=OLD,
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        **changes,
    )


def beating(group_id=NEW, member_id="m" * 22, **changes):
    return beat.ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, **changes)


def committing(group_id, number, member, *, topic=TOPIC, partition=0, metadata="mine",
               offset=COMMITTED):  # fmt: skip
    part = commit.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    return commit.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=number,
        member_id=member,
        topics=[commit.OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )


def late(group_id, number, member, **changes):
    """A commit that would be seen if it were accepted."""
    return committing(group_id, number, member, offset=COMMITTED + 1, **changes)


def fetching(group_id, member=None, epoch=-1):
    asked = fetch.OffsetFetchRequestGroup(
        group_id=group_id, member_id=member, member_epoch=epoch, topics=None
    )
    return fetch.OffsetFetchRequest(groups=[asked])


def deleting_offset(group_id):
    part = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topic = offset_delete.OffsetDeleteRequestTopic(name=TOPIC, partitions=[part])
    return offset_delete.OffsetDeleteRequest(group_id=group_id, topics=[topic])


def leaving(group_id, member):
    return leave.LeaveGroupRequest(
        group_id=group_id, members=[leave.MemberIdentity(member_id=member)]
    )


def error_of(answer):
    """The only one in the answer, wherever the protocol puts it."""
    for part in ("topics", "partitions", "groups", "results", "members", "coordinators"):
        inner = getattr(answer, part, None)
        if inner and not getattr(answer, "error_code", 0):
            (only,) = inner
            return error_of(only)
    return Error(answer.error_code)


# -- what is refused: the line, the request, its version and the error


BAD_INPUT = {
    "a commit of a stale generation": lambda s: (
        s.old, late(OLD, s.generation - 1, s.member), 9, Error.ILLEGAL_GENERATION),
    "a commit of a generation to come": lambda s: (
        s.old, late(OLD, s.generation + 1, s.member), 9, Error.ILLEGAL_GENERATION),
    "a commit of an unknown member": lambda s: (
        s.old, late(OLD, s.generation, "stranger"), 9, Error.UNKNOWN_MEMBER_ID),
    "a commit of nobody in a group with members": lambda s: (
        s.old, late(OLD, -1, ""), 9, Error.UNKNOWN_MEMBER_ID),
    "a commit of an unknown instance": lambda s: (
        s.old,
        commit.OffsetCommitRequest(
            group_id=OLD, generation_id_or_member_epoch=s.generation, member_id=s.member,
            group_instance_id="stranger", topics=late(OLD, 0, "").topics),
        9, Error.UNKNOWN_MEMBER_ID),
    "a commit with oversized metadata": lambda s: (
        s.old, late(OLD, s.generation, s.member, metadata="m" * (LARGEST_METADATA + 1)), 9,
        Error.OFFSET_METADATA_TOO_LARGE),
    "a commit for a negative partition": lambda s: (
        s.old, late(OLD, s.generation, s.member, partition=-1), 9,
        Error.UNKNOWN_TOPIC_OR_PARTITION),
    "a commit for a partition beyond the last": lambda s: (
        s.old, late(OLD, s.generation, s.member, partition=1), 9,
        Error.UNKNOWN_TOPIC_OR_PARTITION),
    "a commit for an unknown topic": lambda s: (
        s.old, late(OLD, s.generation, s.member, topic="none"), 9,
        Error.UNKNOWN_TOPIC_OR_PARTITION),
    "a commit to the wrong coordinator": lambda s: (
        s.other, late(OLD, s.generation, s.member), 9, Error.NOT_COORDINATOR),
    "a commit of a stale epoch": lambda s: (
        s.new, late(NEW, s.epoch - 1, s.new_member), 9, Error.STALE_MEMBER_EPOCH),
    "a commit of an unknown member of a new group": lambda s: (
        s.new, late(NEW, s.epoch, "stranger"), 9, Error.UNKNOWN_MEMBER_ID),
    "a commit to a new group in a version that knows no epochs": lambda s: (
        s.new, late(NEW, s.epoch, s.new_member), 8, Error.UNSUPPORTED_VERSION),
    "a commit to an unknown group": lambda s: (
        s.of(NOBODYS), late(NOBODYS, 3, "stranger"), 9, Error.GROUP_ID_NOT_FOUND),
    "a commit to an unknown group as it used to be": lambda s: (
        s.of(NOBODYS), late(NOBODYS, 3, "stranger"), 8, Error.ILLEGAL_GENERATION),
    "a heartbeat of a stale generation": lambda s: (
        s.old, heartbeating(s.generation - 1, s.member), 4, Error.ILLEGAL_GENERATION),
    "a heartbeat of an unknown member": lambda s: (
        s.old, heartbeating(s.generation, "stranger"), 4, Error.UNKNOWN_MEMBER_ID),
    "a heartbeat in an unknown group": lambda s: (
        s.of(NOBODYS), heartbeating(1, s.member, NOBODYS), 4, Error.UNKNOWN_MEMBER_ID),
    "a heartbeat at the wrong coordinator": lambda s: (
        s.other, heartbeating(s.generation, s.member), 4, Error.NOT_COORDINATOR),
    "a sync of a stale generation": lambda s: (
        s.old, syncing(s.generation - 1, s.member), 5, Error.ILLEGAL_GENERATION),
    "a sync of an unknown member": lambda s: (
        s.old, syncing(s.generation, "stranger"), 5, Error.UNKNOWN_MEMBER_ID),
    "a stranger who leaves": lambda s: (
        s.old, leaving(OLD, "stranger"), 4, Error.UNKNOWN_MEMBER_ID),
    "a member id that nobody gave out": lambda s: (
        s.old, joining(member_id="stranger"), 9, Error.UNKNOWN_MEMBER_ID),
    "a join with another kind of protocol": lambda s: (
        s.old, joining(protocol_type="connect"), 9, Error.INCONSISTENT_GROUP_PROTOCOL),
    "a join without protocols": lambda s: (
        s.old, joining(protocols=[]), 9, Error.INCONSISTENT_GROUP_PROTOCOL),
    "a join with no session to speak of": lambda s: (
        s.old, joining(session_timeout_ms=1), 9, Error.INVALID_SESSION_TIMEOUT),
    "a join without a group": lambda s: (
        s.old, joining(group_id=""), 9, Error.INVALID_GROUP_ID),
    "a join at the wrong coordinator": lambda s: (
        s.other, joining(), 9, Error.NOT_COORDINATOR),
    "a classic join of a new group": lambda s: (
        s.new, joining(group_id=NEW), 9, Error.INCONSISTENT_GROUP_PROTOCOL),
    "a member of the new protocol in a classic group": lambda s: (
        s.old, beating(OLD, rebalance_timeout_ms=1, subscribed_topic_names=[TOPIC],
                       topic_partitions=[]), 1, Error.GROUP_ID_NOT_FOUND),
    "a beat of an epoch to come": lambda s: (
        s.new, beating(member_id=s.new_member, member_epoch=s.epoch + 1), 1,
        Error.FENCED_MEMBER_EPOCH),
    "a beat of an unknown member": lambda s: (
        s.new, beating(member_id="stranger", member_epoch=s.epoch), 1, Error.UNKNOWN_MEMBER_ID),
    "a beat with an unknown assignor": lambda s: (
        s.new, beating(rebalance_timeout_ms=1, subscribed_topic_names=[TOPIC],
                       topic_partitions=[], server_assignor="fair"), 1,
        Error.UNSUPPORTED_ASSIGNOR),
    "a beat with an expression that is none": lambda s: (
        s.new, beating(rebalance_timeout_ms=1, subscribed_topic_regex="(", topic_partitions=[]), 1,
        Error.INVALID_REGULAR_EXPRESSION),
    "a first beat that subscribes to nothing": lambda s: (
        s.new, beating(rebalance_timeout_ms=1, topic_partitions=[]), 1, Error.INVALID_REQUEST),
    "a beat at the wrong coordinator": lambda s: (
        s.besides(NEW), beating(member_id=s.new_member, member_epoch=s.epoch), 1,
        Error.NOT_COORDINATOR),
    "offsets for a stale epoch": lambda s: (
        s.new, fetching(NEW, s.new_member, s.epoch - 1), 9, Error.STALE_MEMBER_EPOCH),
    "offsets for an unknown member": lambda s: (
        s.new, fetching(NEW, "stranger", s.epoch), 9, Error.UNKNOWN_MEMBER_ID),
    "offsets at the wrong coordinator": lambda s: (
        s.other, fetching(OLD), 9, Error.NOT_COORDINATOR),
    "the deletion of a group with members": lambda s: (
        s.old, delete.DeleteGroupsRequest(groups_names=[OLD]), 2, Error.NON_EMPTY_GROUP),
    "the deletion of an unknown group": lambda s: (
        s.of(NOBODYS), delete.DeleteGroupsRequest(groups_names=[NOBODYS]), 2,
        Error.GROUP_ID_NOT_FOUND),
    "the deletion of an offset that is in use": lambda s: (
        s.new, deleting_offset(NEW), 0, Error.GROUP_SUBSCRIBED_TO_TOPIC),
    "the deletion of an offset of an unknown group": lambda s: (
        s.of(NOBODYS), deleting_offset(NOBODYS), 0, Error.GROUP_ID_NOT_FOUND),
    "a description of an unknown group": lambda s: (
        s.of(NOBODYS), describe.DescribeGroupsRequest(groups=[NOBODYS]), 6,
        Error.GROUP_ID_NOT_FOUND),
    "a description of a classic group as a new one": lambda s: (
        s.old, ConsumerGroupDescribeRequest(group_ids=[OLD]), 1, Error.GROUP_ID_NOT_FOUND),
}  # fmt: skip


def heartbeating(generation, member, group_id=OLD):
    return heartbeat.HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member)


def everything(stage):
    """What is known of both groups; their members say that they live."""
    alive = stage.old.ask(heartbeating(stage.generation, stage.member), 4)
    assert alive.error_code == Error.NONE
    alive = stage.new.ask(beating(member_id=stage.new_member, member_epoch=stage.epoch), 1)
    assert alive.error_code == Error.NONE
    assert alive.member_epoch == stage.epoch
    return (
        stage.old.ask(fetching(OLD), 9),
        stage.new.ask(fetching(NEW), 9),
        stage.of(NOBODYS).ask(fetching(NOBODYS), 9),
        stage.old.ask(describe.DescribeGroupsRequest(groups=[OLD]), 6),
        stage.new.ask(ConsumerGroupDescribeRequest(group_ids=[NEW]), 1),
    )


@pytest.mark.parametrize("what", BAD_INPUT)
def test_bad_input_is_refused_and_changes_nothing(what, stage, lines):
    stage.of = lambda group_id: lines[coordinator_of(lines, group_id)]
    stage.besides = lambda group_id: next(
        line for line in lines.values() if line is not stage.of(group_id)
    )
    before = everything(stage)
    line, request, version, error = BAD_INPUT[what](stage)
    answer = line.ask(request, version)
    assert error_of(answer) == error
    assert everything(stage) == before
    assert before[0].groups[0].topics[0].partitions[0].committed_offset == COMMITTED


def test_an_unknown_group_has_no_offsets_and_that_is_no_error(stage, lines):
    topics = [fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, -1])]
    asked = fetch.OffsetFetchRequestGroup(group_id=NOBODYS, topics=topics)
    line = lines[coordinator_of(lines, NOBODYS)]
    (group,) = line.ask(fetch.OffsetFetchRequest(groups=[asked]), 9).groups
    assert group.error_code == Error.NONE
    assert [each.committed_offset for each in group.topics[0].partitions] == [-1, -1]
