"""Members of the metadata quorum over real sockets, with real files."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.live_quorum import BRISK, CLUSTER_ID, HOST, LiveMember, LiveQuorum, until
from support.loopback import run
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import RESOURCE_BROKER, Config, MetadataRecord
from tidelog.core.metadata.replay import replay
from tidelog.core.quorum.messages import VoteRequest as CoreVoteRequest
from tidelog.core.quorum.messages import VoterKey
from tidelog.core.types import NO_LEADER, LogEntry
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.failures import CannotGoOn
from tidelog.host.network import TcpNetwork
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.member import MemberFailed
from tidelog.quorum.membership import STATIC_DIRECTORY_ID
from tidelog.quorum.translate import TOPIC, TOPIC_ID, Speaker, request_to_wire
from tidelog.rpc import Peer
from tidelog.storage import DirectoryOffline
from tidelog.wire.protocol.schemas.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tidelog.wire.protocol.schemas.describe_quorum_response import DescribeQuorumResponse
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.vote_request import VoteRequest

PATIENT = replace(BRISK, fetch_timeout_ms=600_000)
"""A leader that only disappears is not missed within this test."""


def config(number: int) -> Config:
    return Config(RESOURCE_BROKER, "", f"key-{number}", str(number))


def told(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(story, event_loop.loop_factory())


def image_of(node: LiveMember) -> MetadataImage:
    """What a listener that was told all this knows."""
    image = MetadataImage()
    records: list[object] = list(node.journal.snapshots[-1][0]) if node.journal.snapshots else []
    for record in records + node.journal.records:
        replay(image, record)  # type: ignore[arg-type]
    return image


async def commit(quorum: LiveQuorum, *records: MetadataRecord) -> int:
    """The offset after them, applied by everybody who runs."""
    leader = await quorum.leader()
    offset = leader.append(*records) + len(records)
    await quorum.all_applied(offset)
    return offset


def test_three_members_elect_a_leader_and_apply_the_same_entries_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path) as quorum:
            leader = await quorum.leader()
            assert leader.member.leader_address() == (HOST, leader.port)
            for number in range(0, 100, 2):
                leader.append(config(number), config(number + 1))
            await quorum.all_applied(leader.member.log_end_offset)
            written = [config(number) for number in range(100)]
            for node in quorum.nodes.values():
                assert node.journal.records == written
                assert node.journal.entries == leader.journal.entries
            epoch, next_offset = leader.journal.claims[-1]
            assert leader.journal.entries[-50].offset == next_offset
            assert {entry.epoch for entry in leader.journal.entries[-50:]} == {epoch}

    told(story)


def test_a_sole_voter_leads_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, voters=1) as quorum:
            await commit(quorum, config(1))
            assert quorum.nodes[1].journal.records == [config(1)]

    told(story)


def test_the_logs_of_all_members_are_the_same_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path) as quorum:
            for number in range(5):
                await commit(quorum, config(number))
            # Before they stop one after the other: the last ones may elect a leader meanwhile.
            assert len({log_bytes(node) for node in quorum.nodes.values()}) == 1

    told(story)


def test_a_leader_that_crashes_is_replaced_at_once_and_nothing_committed_is_lost(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, settings=PATIENT) as quorum:
            await commit(quorum, *(config(number) for number in range(20)))
            gone = await quorum.leader()
            epoch = gone.member.leader_epoch
            await gone.crash()
            leader = await quorum.leader()
            assert leader is not gone
            assert leader.member.leader_epoch > epoch
            await commit(quorum, config(20))
            await gone.start()
            await commit(quorum, config(21))
            written = [config(number) for number in range(22)]
            for node in quorum.nodes.values():
                assert node.journal.records == written

    told(story)


def test_a_leader_that_stops_hands_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, settings=PATIENT) as quorum:
            await commit(quorum, config(0))
            gone = await quorum.leader()
            epoch = gone.member.leader_epoch
            await gone.stop()
            assert gone.journal.losses == [epoch]
            leader = await quorum.leader()
            assert leader is not gone
            await commit(quorum, config(1))

    told(story)


def test_without_a_majority_nothing_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path) as quorum:
            offset = await commit(quorum, config(0))
            leader = await quorum.leader()
            others = [node for node in quorum.running if node is not leader]
            for node in others:
                await node.crash()
            leader.append(config(1))
            await until(lambda: not leader.member.leads)
            assert leader.member.applied_offset == offset
            for node in others:
                await node.start()
            await commit(quorum, config(2))
            records = leader.journal.records
            assert records[0] == config(0)
            assert records[-1] == config(2)
            for node in others:
                assert node.journal.records == records

    told(story)


def test_all_members_come_back_from_their_disks(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path) as quorum:
            await commit(quorum, *(config(number) for number in range(10)))
            epoch = (await quorum.leader()).member.leader_epoch
            for node in quorum.nodes.values():
                await node.crash()
            for node in quorum.nodes.values():
                await node.start()
            leader = await quorum.leader()
            assert leader.member.leader_epoch > epoch, "nobody leads an epoch twice"
            await commit(quorum, config(10))
            for node in quorum.nodes.values():
                assert node.journal.records == [config(number) for number in range(11)]

    told(story)


def test_what_a_member_promised_is_on_its_disk(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path) as quorum:
            leader = await quorum.leader()
            for node in quorum.nodes.values():
                file = node.directory / f"{TOPIC}-0" / "quorum-state"
                stored = json.loads(file.read_bytes())
                assert stored["leaderEpoch"] == leader.member.leader_epoch
                assert stored["leaderId"] == leader.node_id

    told(story)


def test_a_member_that_was_away_for_too_long_gets_a_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        settings = replace(BRISK, snapshot_chunk_bytes=512)
        async with LiveQuorum(tmp_path, settings=settings, snapshot_every_records=20) as quorum:
            await commit(quorum, config(0))
            leader = await quorum.leader()
            away = next(node for node in quorum.running if node is not leader)
            await away.crash()
            for number in range(1, 100):
                await commit(quorum, config(number))
            await away.start()
            await commit(quorum, config(100))
            assert away.journal.snapshots, "it was told to start over"
            records, end_offset = away.journal.snapshots[-1]
            assert end_offset > 20
            assert config(0) in records
            expected = {f"key-{number}": str(number) for number in range(101)}
            for node in quorum.nodes.values():
                assert image_of(node).configs[(RESOURCE_BROKER, "")] == expected
            await away.crash()
            await away.start()
            await commit(quorum, config(0))
            assert image_of(away) == image_of(await quorum.leader())

    told(story)


def test_an_observer_follows_and_finds_the_next_leader(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, observers=1, settings=PATIENT) as quorum:
            await commit(quorum, config(0))
            await (await quorum.leader()).crash()
            await commit(quorum, config(1))
            observer = quorum.nodes[4]
            assert observer.journal.records == [config(0), config(1)]
            assert not observer.journal.claims

    told(story)


def test_entries_reach_listeners_even_of_an_observer_that_comes_late(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, observers=1, snapshot_every_records=20) as quorum:
            observer = quorum.nodes[4]
            await observer.crash()
            for number in range(60):
                await commit(quorum, config(number))
            await observer.start()
            await commit(quorum, config(60))
            assert len(image_of(observer).configs[(RESOURCE_BROKER, "")]) == 61

    told(story)


async def lose_most_disks(quorum: LiveQuorum) -> bytes:
    """Two of three voters are formatted anew and go on without the third. What it still has."""
    await commit(quorum, config(0))
    (await quorum.leader()).member.resign()
    await commit(quorum, config(1))
    for node in quorum.running:
        await node.stop()
    former_epoch = quorum.nodes[3].member.leader_epoch
    for node_id in (1, 2):
        shutil.rmtree(quorum.nodes[node_id].directory)
        quorum.nodes[node_id].directory.mkdir()
        await quorum.nodes[node_id].start()
    # Beyond the third's epoch, else it could be elected by one of them in a slow moment.
    while (leader := await quorum.leader()).member.leader_epoch <= former_epoch:
        leader.member.resign()
    await commit(quorum, config(2))
    return log_bytes(quorum.nodes[3])


def log_bytes(node: LiveMember) -> bytes:
    return (node.directory / f"{TOPIC}-0" / f"{0:020}.log").read_bytes()


def why_it_stopped(node: LiveMember, had: bytes) -> CannotGoOn:
    (failure,) = node.failures
    assert isinstance(failure, CannotGoOn)
    assert "A quorum that lost its log" in failure.advice
    assert log_bytes(node) == had, "nothing was cut away"
    return failure


def test_a_voter_stops_rather_than_follow_voters_that_have_lost_their_disks(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path) as quorum:
            had = await lose_most_disks(quorum)
            third = quorum.nodes[3]
            await third.start()
            await until(lambda: bool(third.failures))
            assert "committed" in str(why_it_stopped(third, had))
            third.running = False
            await commit(quorum, config(3))

    told(story)


def test_an_observer_stops_rather_than_follow_voters_that_have_lost_their_disks(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, observers=1) as quorum:
            await lose_most_disks(quorum)
            observer = quorum.nodes[4]
            had = log_bytes(observer)
            await observer.start()
            await until(lambda: bool(observer.failures))
            why_it_stopped(observer, had)
            observer.running = False

    told(story)


def describe_request() -> DescribeQuorumRequest:
    topic = TopicData(topic_name=TOPIC, partitions=[PartitionData(partition_index=0)])
    return DescribeQuorumRequest(topics=[topic])


async def asked(network: TcpNetwork, node: LiveMember, request: Any, version: int) -> Any:
    peer = Peer(network, (HOST, node.port), "story")
    try:
        return await peer.ask(request, version, timeout_ms=5_000)
    finally:
        peer.close()


def test_the_leader_describes_the_quorum_and_others_say_who_can(tmp_path: Path) -> None:
    async def story() -> None:
        network = TcpNetwork(SystemClock())
        async with LiveQuorum(tmp_path, observers=1) as quorum:
            offset = await commit(quorum, config(0))
            leader = await quorum.leader()
            for version in range(3):
                answer = await asked(network, leader, describe_request(), version)
                assert isinstance(answer, DescribeQuorumResponse)
                told_of = answer.topics[0].partitions[0]
                assert told_of.error_code == Error.NONE
                assert told_of.leader_id == leader.node_id
                assert told_of.high_watermark == offset
                assert [each.replica_id for each in told_of.current_voters] == [1, 2, 3]
                assert [each.replica_id for each in told_of.observers] == [4]
                assert all(
                    each.last_fetch_timestamp > 0 or version == 0
                    for each in (*told_of.current_voters, *told_of.observers)
                )
                assert len(answer.nodes) == (3 if version == 2 else 0)
            other = next(node for node in quorum.running if node is not leader)
            answer = await asked(network, other, describe_request(), 2)
            told_of = answer.topics[0].partitions[0]
            assert told_of.error_code == Error.NOT_LEADER_OR_FOLLOWER
            assert told_of.leader_id == leader.node_id
            assert f"ask node {leader.node_id}" in told_of.error_message
        network.close()

    told(story)


def fetch(replica_id: int, *, cluster_id: str = CLUSTER_ID, topic_id: bytes = TOPIC_ID) -> Any:
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=replica_id),
        topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition()])],
    )


def test_strangers_are_told_what_is_wrong_and_disturb_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        network = TcpNetwork(SystemClock())
        async with LiveQuorum(tmp_path) as quorum:
            leader = await quorum.leader()
            for replica_id in (-1, leader.node_id):
                answer = await asked(network, leader, fetch(replica_id), 18)
                assert isinstance(answer, FetchResponse)
                partition = answer.responses[0].partitions[0]
                assert partition.error_code == Error.INVALID_REQUEST
            answer = await asked(network, leader, fetch(9, cluster_id="other"), 18)
            assert answer.error_code == Error.INCONSISTENT_CLUSTER_ID
            answer = await asked(network, leader, fetch(9, topic_id=bytes(range(16))), 18)
            assert answer.error_code == Error.UNKNOWN_TOPIC_ID
            answer = await asked(network, leader, VoteRequest(), 2)
            assert answer.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
            await commit(quorum, config(0))
            assert await quorum.leader() is leader
        network.close()

    told(story)


def vote_of(candidate: int, epoch: int) -> VoteRequest:
    """A candidate that asks node 1, with a log that is as good as any."""
    voter = VoterKey(1, STATIC_DIRECTORY_ID)
    rival = VoterKey(candidate, STATIC_DIRECTORY_ID)
    request = CoreVoteRequest(CLUSTER_ID, epoch, rival, voter, 1, 1_000, False)
    speaker = Speaker(CLUSTER_ID, {}, KafkaEntryCodec(), "CONTROLLER")
    wire = request_to_wire(speaker, 1, request)
    assert isinstance(wire, VoteRequest)
    return wire


def test_a_vote_is_remembered_by_the_member_that_gave_it_across_a_crash(tmp_path: Path) -> None:
    async def story() -> None:
        network = TcpNetwork(SystemClock())
        quiet = replace(BRISK, election_timeout_ms=600_000)
        async with LiveQuorum(tmp_path, settings=quiet) as quorum:
            voter = quorum.nodes[1]

            async def granted(candidate: int) -> bool:
                answer = await asked(network, voter, vote_of(candidate, 7), 2)
                return bool(answer.topics[0].partitions[0].vote_granted)

            assert await granted(2)
            assert not await granted(3)
            await voter.crash()
            await voter.start()
            assert not await granted(3), "one vote per epoch"
            assert await granted(2), "the same answer to the same candidate"
        network.close()

    told(story)


def break_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fdatasync", fail)
    monkeypatch.setattr(os, "fsync", fail)


def test_a_member_whose_disk_fails_halts_and_commits_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, voters=1) as quorum:
            node = quorum.nodes[1]
            offset = await commit(quorum, config(0))
            with monkeypatch.context() as broken:
                break_syncs(broken)
                node.append(config(1))
                await until(lambda: bool(node.failures))
            assert isinstance(node.failures[0], DirectoryOffline)
            assert node.member.applied_offset == offset
            with pytest.raises(MemberFailed, match="member 1 does not run"):
                node.append(config(2))
            await node.crash()
            await node.start()
            await commit(quorum, config(3))
            assert node.journal.records[0] == config(0)
            assert node.journal.records[-1] == config(3)

    told(story)


def test_a_member_that_cannot_write_down_its_promise_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, voters=1) as quorum:
            await commit(quorum, config(0))
            node = quorum.nodes[1]
            await node.crash()
            await node.listen()
            node.prepare()
            with monkeypatch.context() as broken:
                break_syncs(broken)
                with pytest.raises(MemberFailed):
                    node.member.start()
            assert isinstance(node.failures[0], OSError)
            assert node.member.leader_id == NO_LEADER

    told(story)


class Stumbling:
    """A listener with a bug."""

    def on_committed(self, entry: LogEntry) -> None:
        if not entry.control:
            raise ValueError(f"cannot apply {entry.offset}")

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        pass

    def on_applied(self, offset: int) -> None:
        pass

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        pass

    def on_lost(self, epoch: int) -> None:
        pass


def test_a_listener_that_cannot_apply_an_entry_stops_the_member(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveQuorum(tmp_path, voters=1) as quorum:
            node = await quorum.leader()
            node.member.listeners.append(Stumbling())
            offset = node.append(config(0))
            await until(lambda: bool(node.failures))
            assert str(node.failures[0]) == f"cannot apply {offset}"
            assert not node.member.leads

    told(story)
