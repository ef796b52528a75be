"""What goes on around a group during a story, and the verdict on it afterwards."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from e2e.groups.member import GONE, GUARD_S, Crew, Member, share, until
from support import live
from tidelog.broker.coordination.coordinators import java_hash
from tidelog.core.errors import Error
from tidelog.testing import Cluster
from tidelog.wire.protocol.errors import ProtocolError
from tidelog.wire.protocol.schemas.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

PAUSE_S = 0.02
WATCH_S = 0.1
OFFSET_FETCH_VERSION = 8
PASSING = (
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
)
INTERNAL = "__consumer_offsets"


class Place(NamedTuple):
    partition: int
    offset: int


class NumberedWriter:
    """Writes numbered records in turn to every partition until it is told to stop."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.written: dict[Place, str] = {}
        self.partitions = partitions
        self._topic = topic
        self._failures: list[str] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(self.partitions):
                self._producer.produce(
                    self._topic, str(number), partition=partition, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(PAUSE_S)
            self._stop.wait(PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None or partition is None or offset is None or value is None:
            self._failures.append(f"{error}")
        else:
            self.written[Place(partition, offset)] = value.decode()

    def end(self) -> dict[int, int]:
        """Everything is acknowledged; where each partition ends."""
        self.stop()
        assert self._producer.flush(GUARD_S) == 0, "records without an answer"
        assert not self._failures, self._failures
        ends = dict.fromkeys(range(self.partitions), 0)
        for place in self.written:
            ends[place.partition] = max(ends[place.partition], place.offset + 1)
        return ends

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Watcher:
    """Fetches what the group has committed again and again; it must never go back."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.fetched: list[dict[int, int]] = []
        self._cluster, self._group_id = cluster, group_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def committed(self) -> dict[int, int]:
        """By partition, from whoever coordinates the group now."""
        deadline = time.monotonic() + GUARD_S
        while True:
            for broker in self._cluster.brokers:
                with contextlib.suppress(OSError, ProtocolError, NoAnswer):  # it may die meanwhile
                    return committed(self._cluster, broker, self._group_id)
            assert time.monotonic() < deadline, "nobody coordinates the group"
            time.sleep(PAUSE_S)

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_S):
            self.fetched.append(self.committed())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def gone_back(self) -> list[str]:
        found = []
        for earlier, later in zip(self.fetched, self.fetched[1:], strict=False):
            found += [
                f"partition {partition} from {offset} to {later.get(partition)}"
                for partition, offset in earlier.items()
                if later.get(partition, -1) < offset
            ]
        return found


class NoAnswer(Exception):  # noqa: N818 - it says what happened
    """Ask somebody else, or later."""


def committed(cluster: Cluster, broker: int, group_id: str) -> dict[int, int]:
    """What this broker says, which has to be the coordinator, by partition.

    Asked by hand: librdkafka binds a question to one broker, and waits in vain if that broker is
    missing from what the others answer meanwhile."""
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = OffsetFetchRequest(groups=[asked])
    (group,) = live.ask(cluster, broker, request, OFFSET_FETCH_VERSION).groups
    if group.error_code in PASSING:
        raise NoAnswer
    assert group.error_code == Error.NONE, Error(group.error_code)
    return {
        each.partition_index: each.committed_offset
        for topic in group.topics
        for each in topic.partitions
    }


class Story(NamedTuple):
    """A group at work on a topic that is being written to."""

    cluster: Cluster
    crew: Crew
    writer: NumberedWriter
    watcher: Watcher

    @property
    def partitions(self) -> range:
        return range(self.writer.partitions)

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        found = self.cluster.ask(lambda client: client.topic(INTERNAL))
        index = java_hash(self.crew.group_id) % len(found.partitions)
        leader = self.cluster.partition(INTERNAL, index).leader
        assert leader is not None, "the group has no coordinator"
        return leader

    def progress(self) -> None:
        """Wait until every partition's committed offset has moved on from where it is now."""
        before = self.watcher.committed()

        def moved_on() -> bool:
            now = self.watcher.committed()
            return all(now.get(each, -1) > before.get(each, -1) for each in self.partitions)

        until(moved_on, f"commits go on from {before}")

    def until_settled(self, *members: Member) -> frozenset[str]:
        """Wait until the coordinator and the members agree on who owns what; the members' ids.

        The coordinator is content before the members have heard of it. Whoever commits in a
        group that is stable has heard, and has told its program."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        seated: frozenset[str] = frozenset()

        def settled() -> bool:
            nonlocal seated
            (answer,) = admin.describe_consumer_groups(
                [self.crew.group_id], request_timeout=GUARD_S
            ).values()
            seen = answer.result()
            seated = frozenset(each.member_id for each in seen.members)
            assigned = {
                each.client_id: {place.partition for place in each.assignment.topic_partitions}
                for each in seen.members
            }
            owned = {member.name: member.owned() for member in members}
            stable = seen.state is ConsumerGroupState.STABLE
            return stable and assigned == owned and share(len(self.partitions), *members)

        until(settled, f"a stable group of {len(members)}")
        self.progress()
        return seated

    def judge(self) -> None:
        """Nothing written is unprocessed, nothing committed was lost or went back."""
        ends = self.writer.end()
        until(lambda: self.watcher.committed() == ends, f"everything is committed up to {ends}")
        self.watcher.stop()
        assert self.watcher.fetched, "nobody looked"
        assert not self.watcher.gone_back()
        processed: dict[Place, str] = {}
        for member in self.crew.members:
            for each in member.named("processed"):
                for partition, offset, value in each["records"]:
                    processed[Place(partition, offset)] = value
        assert processed == self.writer.written


@contextlib.contextmanager
def story_of(cluster: Cluster, crew: Crew, partitions: int) -> Iterator[Story]:
    writer = NumberedWriter(cluster, crew.topic, partitions)
    watcher = Watcher(cluster, crew.group_id)
    try:
        yield Story(cluster, crew, writer, watcher)
    finally:
        writer.stop()
        watcher.stop()


@contextlib.contextmanager
def quiet(*members: Member) -> Iterator[None]:
    """None of them may gain or lose a partition meanwhile, nor be refused a commit for good."""
    since = [len(member.events) for member in members]
    yield
    for member, told in zip(members, since, strict=True):
        changes = member.named("assigned", *GONE, since=told)
        assert not changes, f"{member.name}: {changes}"
