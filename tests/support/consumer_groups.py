"""A coordinator of the consumer protocol on a log in memory, and members that talk to it.

Every record it writes is kept, so a failover is a new coordinator that reads them. After every
step the rule of the protocol is checked: no partition is in two hands.
"""

import re
from typing import Any

from tidelog.core.coordination import Instant, Outcome
from tidelog.core.errors import Error
from tidelog.core.groups.assignors import flatten, fold
from tidelog.core.groups.consumer import ConsumerGroups
from tidelog.core.groups.consumer_group import held
from tidelog.core.groups.requests import (
    ClientName,
    ConnectionLost,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    DescribeConsumerGroup,
)
from tidelog.core.groups.settings import (
    GroupSettings,
    InvalidRegex,
    KnownTopic,
    RhythmOf,
    rhythm_of_all,
)

GROUP = "g"
CLIENT = ClientName("app", "10.0.0.7")
SETTINGS = GroupSettings(consumer_session_timeout_ms=45_000, consumer_heartbeat_interval_ms=5_000)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class Topics:
    """The cluster's topics; a recreated topic has another id."""

    def __init__(self, **partitions: int) -> None:
        self.known = {n: KnownTopic(topic_id(n), count) for n, count in partitions.items()}

    def find(self, topic: str) -> KnownTopic | None:
        return self.known.get(topic)

    def name_of(self, topic_id: bytes) -> str | None:
        return next((n for n, topic in self.known.items() if topic.topic_id == topic_id), None)

    def matching(self, regex: str) -> tuple[str, ...]:
        try:
            pattern = re.compile(regex)
        except re.error as wrong:
            raise InvalidRegex(str(wrong)) from wrong
        return tuple(sorted(name for name in self.known if pattern.fullmatch(name)))


def parts(**numbers: Any) -> Any:
    """parts(a=(0, 1)): partitions 0 and 1 of the topic a."""
    return fold((topic_id(name), n) for name, each in numbers.items() for n in each)


JOIN: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topics": ("a",), "owned": ()}
PLAIN = ConsumerHeartbeat(
    GROUP, "", 0, None, None, -1, CLIENT, None, None, None, None, fresh_member_id=""
)


class Coordinator:
    """One shard, and those that follow it."""

    def __init__(
        self,
        topics: Topics,
        settings: GroupSettings = SETTINGS,
        rhythm_of: RhythmOf | None = None,
    ) -> None:
        self.topics = topics
        self.settings = settings
        self.now_ms = 1_000
        self.log: list[Any] = []
        self.events: list[Any] = []
        self.rhythm_of = rhythm_of or rhythm_of_all(settings)
        self.machine = ConsumerGroups(settings, topics, self.rhythm_of)

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, 1_700_000_000_000 + self.now_ms)

    # -- what happens

    def ask(self, request: Any) -> Any:
        token = object()
        outcome = self._settle(self.machine.request(request, token, self.now))
        ((answered, response),) = outcome.answers
        assert answered is token
        assert self.machine.parked() == []
        return response

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResponse:
        request = PLAIN._replace(member_id=member_id, member_epoch=epoch, **fields)
        response: ConsumerHeartbeatResponse = self.ask(request)
        assert response.heartbeat_interval_ms == self.rhythm_of(GROUP).heartbeat_interval_ms
        return response

    def join(self, member_id: str, **fields: Any) -> ConsumerHeartbeatResponse:
        return self.beat(member_id, 0, **{**JOIN, **fields})

    def joined(self, member_id: str, **fields: Any) -> ConsumerHeartbeatResponse:
        response = self.join(member_id, **fields)
        assert response.error == Error.NONE, response
        return response

    def connection_broke(self, member_id: str, *, client_is_there: bool = False) -> None:
        lost = ConnectionLost(GROUP, member_id, client_is_there)
        assert self._settle(self.machine.request(lost, None, self.now)).answers == ()

    def pass_time(self, elapsed_ms: int) -> None:
        """Timers fire when they are due, not later."""
        end_ms = self.now_ms + elapsed_ms
        while self.machine.next_deadline_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.machine.next_deadline_ms())
            self._settle(self.machine.on_time(self.now))
        self.now_ms = end_ms

    def change_topics(self, **partitions: int) -> None:
        for name, count in partitions.items():
            if count == 0:
                self.topics.known.pop(name, None)
            else:
                known = self.topics.known.get(name)
                identity = topic_id(name) if known is None else known.topic_id
                self.topics.known[name] = KnownTopic(identity, count)
        self._settle(self.machine.on_topics_changed(self.now))

    def fail_over(self, *, compacted: bool = False) -> None:
        before = self.machine.stored()
        successor = ConsumerGroups(self.settings, self.topics)
        for record in compact(self.log) if compacted else self.log:
            successor.replay(record)
        self.machine = successor
        assert self.machine.stored() == before
        self._settle(successor.activate(self.now))

    def _settle(self, outcome: Outcome) -> Outcome:
        for write in outcome.writes:
            assert write.records, "an empty batch"
            for record in write.records:
                self.log.append(record)
                self.machine.replay(record)
            self.check()
        self.events += outcome.events
        return outcome

    # -- what can be seen

    def describe(self, group_id: str = GROUP) -> Any:
        return self.ask(DescribeConsumerGroup(group_id))

    def assigned(self) -> dict[str, Any]:
        return {m.member_id: m.assignment for m in self.describe().members}

    def targets(self) -> dict[str, Any]:
        return {m.member_id: m.target for m in self.describe().members}

    def check(self) -> None:
        for group in self.machine.stored().values():
            owners: dict[Any, str] = {}
            for member_id, current in group.currents.items():
                assert member_id in group.members, f"{member_id} left something behind"
                for partition in held(current):
                    assert partition not in owners, f"{partition}: {owners[partition]}, {member_id}"
                    owners[partition] = member_id
            targets = [p for target in group.targets.values() for p in flatten(target)]
            assert len(targets) == len(set(targets))


def compact(log: list[Any]) -> list[Any]:
    """The last record of every key, in the order of the log."""
    last = {(type(record), record[:-1]): offset for offset, record in enumerate(log)}
    return [log[offset] for offset in sorted(last.values())]
