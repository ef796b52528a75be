"""An incremental session tells the same as a full fetch would, in fewer words (KIP-227)."""

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import loopback
from support.fed_brokers import (
    append,
    broker_epoch,
    build,
    hosted_on,
    node_config,
    registration,
    topic_id,
    topic_records,
)
from support.manual_clock import ManualClock
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.types import LogEntry
from tidelog.host.entropy import SystemEntropy
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.timers import TimerWheel
from tidelog.rpc import Call, Caller
from tidelog.wire.protocol import RequestHeader, decode_response
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

PARTITIONS = 4
VERSION = 18
LAG_MS = 30_000


class Reader:
    """The far end of a connection: it reads what it is sent."""

    allowance_bytes = 1 << 30


class Slot:
    """Where one answer goes."""

    def __init__(self) -> None:
        self.frame = b""

    def answer(self, buffers):
        self.frame = b"".join(bytes(each) for each in buffers)


class Bench:
    """One broker that leads a topic with a follower; nothing runs by itself."""

    def __init__(self, data: Path, network: TcpNetwork, **settings: str) -> None:
        self.clock = ManualClock()
        self._offset = 0
        host = NodeHost(
            self.clock, TimerWheel(self.clock), network, SystemEntropy(), lambda _: None
        )
        self.broker, _ = build(node_config(1, data, **settings), data, host)
        self.commit(registration(1, 9001), registration(2, 9002))
        self.broker.committed.begin_serving()
        self.commit(*topic_records("tides", replicas=(1, 2), partitions=PARTITIONS))

    async def close(self) -> None:
        await self.broker.fetchers.stop()
        self.broker.link.close()
        self.broker.workshop.close()

    def commit(self, *records: r.MetadataRecord) -> None:
        self.broker.committed.on_committed(LogEntry(self._offset, 1, records))
        self._offset += len(records)

    def fetch(self, request: FetchRequest):
        slot = Slot()
        header = RequestHeader(1, VERSION, 1, "story")
        call = Call(header, request, slot, Reader(), Caller("PLAINTEXT"))
        self.broker.fetches.fetch(call, request)
        return decode_response(memoryview(slot.frame), 1, VERSION)[1]

    def hosted(self, index: int):
        return hosted_on(self.broker, "tides", index)

    def follower_catches_up(self, index: int) -> None:
        hosted = self.hosted(index)
        if hosted.leader is None:
            return
        log = hosted.log
        fetch = FollowerFetch(
            2,
            broker_epoch(2),
            hosted.replica.leader_epoch,
            log.log_end_offset,
            log.epochs.latest_epoch,
            log.log_start_offset,
        )
        decision, effects = hosted.leader.on_follower_fetch(fetch, self.broker.now_ms())
        assert not decision.error
        self.broker.replicas.perform(hosted, effects)

    def trim(self, index: int) -> None:
        hosted = self.hosted(index)
        hosted.log.raise_log_start(hosted.replica.high_watermark)
        self.broker.fetches.wake_consumers(hosted.partition)

    def check_isr(self) -> None:
        replicas = self.broker.replicas
        replicas.check_isr(replicas.hosted.values())

    def elect(self, index: int) -> None:
        """The other replica leads, or we again."""
        other = 1 if self.hosted(index).leader is None else 2
        self.commit(r.PartitionChange(index, topic_id("tides"), leader=other))


def on_bench(data: Path, story, **settings: str) -> None:
    """Within a loop, because what a broker wants to send it sends; nobody is there to hear."""

    async def told() -> None:
        async with loopback.loopback() as network:
            bench = Bench(data, network, **settings)
            try:
                story(bench)
            finally:
                await bench.close()

    loopback.run(told)


def topics(positions: dict[int, int], leader_epoch: int = -1) -> list[FetchTopic]:
    partitions = [
        FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        for index, offset in positions.items()
    ]
    return [FetchTopic(topic_id=topic_id("tides"), partitions=partitions)] if partitions else []


class Consumer:
    """Keeps a session, and what it was told in it."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._session_id = 0
        self._epoch = 0
        self.positions: dict[int, int] = {}
        self._mentioned: dict[int, int] = {}
        self.known: dict[int, tuple] = {}

    def incremental(self) -> dict[int, tuple]:
        """Ask for changes; the whole picture afterwards, as a full answer would give it."""
        changed = {
            index: offset
            for index, offset in self.positions.items()
            if self._mentioned.get(index) != offset
        }
        gone = [index for index in self._mentioned if index not in self.positions]
        answer = self._bench.fetch(
            FetchRequest(
                session_id=self._session_id,
                session_epoch=self._epoch,
                max_bytes=1 << 30,
                topics=topics(changed),
                forgotten_topics_data=[ForgottenTopic(topic_id=topic_id("tides"), partitions=gone)]
                if gone
                else [],
            )
        )
        assert answer.error_code == 0
        self._session_id = answer.session_id
        self._epoch = self._epoch + 1 if answer.session_id else 0
        self._mentioned = dict(self.positions) if answer.session_id else {}
        # What is not told is as it was, without records.
        picture = {
            index: (*facts[:4], b"") for index, facts in self.known.items() if index not in gone
        }
        picture.update(seen(answer))
        self.known = picture
        return picture

    def full(self) -> dict[int, tuple]:
        return seen(
            self._bench.fetch(FetchRequest(max_bytes=1 << 30, topics=topics(self.positions)))
        )


def seen(answer) -> dict[int, tuple]:
    return {
        data.partition_index: (
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            bytes(data.records or b""),
        )
        for topic in answer.responses
        for data in topic.partitions
    }


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "commit", "trim", "elect", "seek", "read on", "leave", "nothing"]
        ),
        st.integers(0, PARTITIONS - 1),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=30,
)


def take(bench: Bench, consumer: Consumer, step: tuple[str, int, int]) -> None:
    what, index, number = step
    leads = bench.hosted(index).leader is not None
    if what == "append" and leads:
        append(bench.broker, "tides", b"x" * (number + 1), index=index)
    elif what == "commit":
        bench.follower_catches_up(index)
    elif what == "trim" and leads:
        bench.trim(index)
    elif what == "elect":
        bench.elect(index)
    elif what == "seek":
        consumer.positions[index] = number
    elif what == "read on":
        consumer.positions[index] = bench.hosted(index).replica.high_watermark
    elif what == "leave":
        consumer.positions.pop(index, None)


AWAITS_HIGH_WATERMARK_AGAIN = [
    ("append", 0, 0),
    ("elect", 0, 0),
    ("seek", 0, 1),
    ("elect", 0, 0),  # the broker leads again, and does not know yet what is committed
]


@settings(max_examples=60, deadline=None)
@given(steps)
@example(AWAITS_HIGH_WATERMARK_AGAIN)
def test_an_incremental_session_tells_what_a_full_fetch_tells(taken) -> None:
    def story(bench: Bench) -> None:
        consumer = Consumer(bench)
        for step in taken:
            take(bench, consumer, step)
            expected = consumer.full()
            assert consumer.incremental() == expected, step

    with tempfile.TemporaryDirectory() as data:
        on_bench(Path(data), story)


def test_a_consumer_is_told_that_the_next_leader_does_not_know_its_offset_yet(
    tmp_path: Path,
) -> None:
    def story(bench: Bench) -> None:
        consumer = Consumer(bench)
        for step in AWAITS_HIGH_WATERMARK_AGAIN:
            take(bench, consumer, step)
            told = consumer.incremental()
        assert told[0][0] == Error.OFFSET_NOT_AVAILABLE
        bench.follower_catches_up(0)
        assert consumer.incremental()[0][:2] == (0, 1)

    on_bench(tmp_path, story)


def fetch_as_follower(
    bench: Bench, session_id: int, epoch: int, positions: dict[int, int], leader_epoch: int = -1
):
    return bench.fetch(
        FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            max_bytes=1 << 30,
            replica_state=ReplicaState(replica_id=2, replica_epoch=broker_epoch(2)),
            topics=topics(positions, leader_epoch),
        )
    )


def test_a_follower_in_a_new_leader_epoch_is_told_everything_anew(tmp_path: Path) -> None:
    """It may have ignored the last answer, which was about the epoch before."""

    def story(bench: Bench) -> None:
        session = fetch_as_follower(bench, 0, 0, {0: 0}, 0).session_id
        assert seen(fetch_as_follower(bench, session, 1, {0: 0}, 0)) == {}
        bench.elect(0)
        bench.elect(0)
        assert list(seen(fetch_as_follower(bench, session, 2, {0: 0}, 2))) == [0]

    on_bench(tmp_path, story)


def test_a_follower_that_mentions_nothing_stays_in_sync(tmp_path: Path) -> None:
    """Its session stands for a fetch of every partition: a record that comes after an idle hour
    must not find it late."""

    def story(bench: Bench) -> None:
        session = fetch_as_follower(bench, 0, 0, dict.fromkeys(range(PARTITIONS), 0)).session_id
        for epoch in range(1, 200):
            bench.clock.advance(500)
            fetch_as_follower(bench, session, epoch, {})
            bench.check_isr()
        append(bench.broker, "tides", b"late", index=2)
        bench.check_isr()
        assert not bench.hosted(2).leader.has_change_in_flight()
        bench.clock.advance(2 * LAG_MS)
        bench.check_isr()
        assert bench.hosted(2).leader.has_change_in_flight()

    on_bench(tmp_path, story, replica_lag_time_max_ms=str(LAG_MS))


def test_an_idle_follower_that_was_dropped_joins_again_by_itself(tmp_path: Path) -> None:
    def story(bench: Bench) -> None:
        session = fetch_as_follower(bench, 0, 0, dict.fromkeys(range(PARTITIONS), 0)).session_id
        bench.commit(r.PartitionChange(1, topic_id("tides"), isr=(1,)))
        for epoch in range(1, 20):
            bench.clock.advance(500)
            fetch_as_follower(bench, session, epoch, {})
        assert bench.hosted(1).leader.isr_state.proposed_isr == (1, 2)

    on_bench(tmp_path, story, replica_lag_time_max_ms=str(LAG_MS))


def test_idle_partitions_are_not_looked_at(tmp_path: Path) -> None:
    def story(bench: Bench) -> None:
        positions = dict.fromkeys(range(PARTITIONS), 0)
        session_id = fetch_as_follower(bench, 0, 0, positions).session_id
        session = bench.broker.fetches.sessions.find(session_id)
        assert session is not None
        assert not session.active
        append(bench.broker, "tides", b"news", index=3)
        assert [fetch.index for fetch in session.active] == [3]
        answer = fetch_as_follower(bench, session_id, 1, {})
        assert list(seen(answer)) == [3]

    on_bench(tmp_path, story)
