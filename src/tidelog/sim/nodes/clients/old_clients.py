"""What clients of earlier versions do, question by question, where ours does something newer."""

from collections.abc import Mapping
from random import Random

from tidelog.client import Client
from tidelog.client.coordinator import OF_TRANSACTION, find_coordinator
from tidelog.rpc import Peer
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from tidelog.wire.protocol.schemas.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.protocol.schemas.end_txn_request import EndTxnRequest
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.heartbeat_request import HeartbeatRequest
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse
from tidelog.wire.protocol.schemas.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from tidelog.wire.protocol.schemas.join_group_response import JoinGroupResponse
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest, MemberIdentity
from tidelog.wire.protocol.schemas.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.protocol.schemas.sync_group_request import SyncGroupRequest

ANSWER_WITHIN_MS = 3_000
OLD_GROUP = "inspected"
OLD_ID = "inspected"
FIRST_EPOCH, LAST_VERSION_BY_NAME = 0, 12


async def old_member(peer: Peer, entropy: Random, partitions: Mapping[str, int]) -> None:
    """Joins a group of its own as a member that is told its id, commits, and leaves."""
    topic = next(iter(partitions))

    async def ask(request: Message, last_version: int) -> Message:
        version = entropy.randrange(2, last_version + 1)
        return await peer.ask(request, version, timeout_ms=ANSWER_WITHIN_MS)

    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")
    joined = await ask(
        JoinGroupRequest(
            group_id=OLD_GROUP,
            session_timeout_ms=2_000,
            rebalance_timeout_ms=2_000,
            protocol_type="consumer",
            protocols=[protocol],
        ),
        3,
    )
    assert isinstance(joined, JoinGroupResponse), joined
    member_id, generation = joined.member_id, joined.generation_id
    await ask(
        SyncGroupRequest(group_id=OLD_GROUP, generation_id=generation, member_id=member_id), 3
    )
    await ask(
        HeartbeatRequest(group_id=OLD_GROUP, generation_id=generation, member_id=member_id), 3
    )
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    commit = OffsetCommitRequest(
        group_id=OLD_GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )
    await ask(commit, 7)
    leaving = MemberIdentity(member_id=member_id)
    await ask(LeaveGroupRequest(group_id=OLD_GROUP, member_id=member_id, members=[leaving]), 4)


async def old_fetch_session(peer: Peer, entropy: Random, partitions: Mapping[str, int]) -> None:
    """Asks about all partitions once, then about what has changed, and forgets one."""
    version = entropy.randrange(7, LAST_VERSION_BY_NAME + 1)
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
                for index in range(count)
            ],
        )
        for topic, count in partitions.items()
    ]
    first, last = topics[0], topics[-1]
    forgotten = ForgottenTopic(topic=last.topic, partitions=[0])
    session_id = 0
    for epoch in range(4):
        request = FetchRequest(
            max_wait_ms=50,
            min_bytes=1,
            max_bytes=entropy.choice((1, 100_000)),
            session_id=session_id,
            session_epoch=epoch,
            topics=topics if epoch == FIRST_EPOCH else [first] if epoch == 2 else [],
            forgotten_topics_data=[forgotten] if epoch == 3 else [],
        )
        answer = await peer.ask(request, version, timeout_ms=ANSWER_WITHIN_MS)
        assert isinstance(answer, FetchResponse), answer
        session_id = answer.session_id


async def old_transaction(
    client: Client, peers: Mapping[int, Peer], entropy: Random, partitions: Mapping[str, int]
) -> None:
    """Version 1: partitions and groups are added first, and the epoch stays. It writes nothing,
    so whether it commits does not matter."""
    topic = next(iter(partitions))  # no group reads it, so markers keep nobody from its end
    peer = peers[await find_coordinator(client, OF_TRANSACTION, OLD_ID)]

    async def ask(request: Message, version: int) -> Message:
        return await peer.ask(request, version, timeout_ms=ANSWER_WITHIN_MS)

    introduced = await ask(
        InitProducerIdRequest(transactional_id=OLD_ID, transaction_timeout_ms=2_000),
        entropy.randrange(5),
    )
    assert isinstance(introduced, InitProducerIdResponse), introduced
    producer_id, producer_epoch = introduced.producer_id, introduced.producer_epoch
    added = AddPartitionsToTxnTopic(name=topic, partitions=[0])
    await ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=OLD_ID,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[added],
        ),
        entropy.randrange(4),
    )
    await ask(
        AddOffsetsToTxnRequest(
            transactional_id=OLD_ID,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            group_id=OLD_GROUP,
        ),
        entropy.randrange(4),
    )
    if entropy.random() < 0.2:
        return  # nobody ends it: its time runs out
    await ask(
        EndTxnRequest(
            transactional_id=OLD_ID,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=entropy.random() < 0.5,
        ),
        entropy.randrange(5),
    )
