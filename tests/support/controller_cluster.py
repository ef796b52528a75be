"""Controllers on a metadata log that commits when the story says so.

The quorum is reduced to what controllers see of it: one log, one leader at a time, entries
that are committed in order or lost with their leader.
"""

from typing import Any, cast

from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, AppendRecords, Effect
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.replay import replay
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum.messages import LeaderChange
from tidelog.core.requests import (
    AlterPartitionRequest,
    ControllerRequest,
    ControllerResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrMember,
    IsrProposal,
    IsrResult,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import LogEntry, PartitionId

CLUSTER_ID = "cluster"


def incarnation(broker: int, start: int) -> bytes:
    return broker.to_bytes(8, "big") + start.to_bytes(8, "big")


class Cluster:
    """`commits=False`: entries wait until `commit` is called."""

    def __init__(self, *, nodes: int = 1, commits: bool = True, **settings: Any) -> None:
        self.settings = ControllerSettings(CLUSTER_ID, **{"max_idle_interval_ms": 0, **settings})
        self.commits = commits
        self.now_ms = 1000
        self.log: list[LogEntry] = []
        self.committed_count = 0
        self.answers: dict[object, list[ControllerResponse]] = {}
        self.events: list[Event] = []
        self.starts: dict[int, int] = {}
        self.claim_epoch = 0
        self._uuids = 0
        self._tokens = 0
        self.controllers = [
            Controller(node, self.settings, lambda _limit: 0, self._uuid) for node in range(nodes)
        ]
        self.leader = 0
        self.elect(0)

    # -- the log ----------------------------------------------------------------------------

    @property
    def controller(self) -> Controller:
        return self.controllers[self.leader]

    @property
    def image(self) -> MetadataImage:
        """What is decided so far, committed or not."""
        assert self.controller.current is not None
        return self.controller.current

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    @property
    def records(self) -> tuple[MetadataRecord, ...]:
        """Every record of the log, without the quorum's own."""
        return tuple(
            cast(MetadataRecord, record)
            for entry in self.log
            if not entry.control
            for record in entry.records
        )

    def records_of(self, request: ControllerRequest) -> tuple[MetadataRecord, ...]:
        """What a request adds to the log."""
        count = len(self.records)
        self.ask(request)
        return self.records[count:]

    def elect(self, node: int, *, kept: int = 0) -> None:
        """Another node leads; it has as many of the entries that were not committed."""
        self.renounce()
        del self.log[self.committed_count + kept :]
        self.claim_epoch += 1
        self.leader = node
        change = LeaderChange(node, (), ())
        self.log.append(LogEntry(self.end_offset, self.claim_epoch, (change,), control=True))
        self.commit()
        self.perform(self.controller.claim(self.claim_epoch, self.end_offset, self.now_ms))

    def renounce(self) -> None:
        self.perform(self.controller.renounce(self.now_ms))

    def commit(self, count: int | None = None) -> None:
        """The next `count` entries, or all there are."""
        end = len(self.log) if count is None else min(len(self.log), self.committed_count + count)
        while self.committed_count < end:
            entry = self.log[self.committed_count]
            self.committed_count += 1
            for controller in self.controllers:
                self.perform(controller.on_committed(entry, self.now_ms))

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert effect.base_offset == self.end_offset, (effect.base_offset, self.end_offset)
                assert 0 < len(effect.records) <= self.settings.max_records_per_batch
                self.log.append(LogEntry(self.end_offset, self.claim_epoch, effect.records))
            elif isinstance(effect, Answer):
                self.answers.setdefault(effect.token, []).append(effect.response)
            else:
                self.events.append(effect)
        if self.commits and self.committed_count < len(self.log):
            self.commit()

    def replayed(self, *, committed_only: bool = False) -> MetadataImage:
        """The slow oracle: the whole log from the beginning."""
        image = MetadataImage()
        entries = self.log[: self.committed_count] if committed_only else self.log
        for entry in entries:
            if not entry.control:
                for record in entry.records:
                    replay(image, cast(MetadataRecord, record))
        return image

    # -- requests ---------------------------------------------------------------------------

    def send(self, request: ControllerRequest, node: int | None = None) -> int:
        """Without waiting; the answer, when there is one, is in `answers[token]`."""
        self._tokens += 1
        controller = self.controller if node is None else self.controllers[node]
        self.perform(controller.handle(self._tokens, request, self.now_ms))
        return self._tokens

    def answer(self, token: int) -> ControllerResponse | None:
        given = self.answers.get(token, [])
        assert len(given) <= 1, "answered twice"
        return given[0] if given else None

    def ask(self, request: ControllerRequest) -> Any:
        response = self.answer(self.send(request))
        assert response is not None, "not answered yet"
        return response

    def tick(self) -> tuple[MetadataRecord, ...]:
        count = len(self.records)
        self.perform(self.controller.tick(self.now_ms))
        return self.records[count:]

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    # -- brokers ----------------------------------------------------------------------------

    def register_request(self, broker: int, previous_broker_epoch: int = -1) -> Any:
        return RegisterBrokerRequest(
            broker,
            CLUSTER_ID,
            incarnation(broker, self.starts.setdefault(broker, 0)),
            previous_broker_epoch=previous_broker_epoch,
        )

    def register(self, broker: int) -> int:
        response = self.ask(self.register_request(broker))
        assert isinstance(response, RegisterBrokerResponse)
        assert response.error is Error.NONE
        return response.broker_epoch

    def restart(self, broker: int, previous_broker_epoch: int = -1) -> RegisterBrokerResponse:
        """A new process asks to register; clean if it names the last epoch."""
        self.starts[broker] = self.starts.get(broker, 0) + 1
        response = self.ask(self.register_request(broker, previous_broker_epoch))
        assert isinstance(response, RegisterBrokerResponse)
        return response

    def epoch_of(self, broker: int) -> int:
        return self.image.brokers[broker].broker_epoch

    def beat_request(
        self, broker: int, *, fence: bool = False, stop: bool = False, offset: int | None = None
    ) -> HeartbeatRequest:
        applied = self.end_offset - 1 if offset is None else offset
        return HeartbeatRequest(broker, self.epoch_of(broker), applied, fence, stop)

    def beat(
        self, broker: int, *, fence: bool = False, stop: bool = False, offset: int | None = None
    ) -> HeartbeatResponse:
        response = self.ask(self.beat_request(broker, fence=fence, stop=stop, offset=offset))
        assert isinstance(response, HeartbeatResponse)
        return response

    def start_brokers(self, *brokers: int) -> None:
        for broker in brokers:
            self.register(broker)
            assert not self.beat(broker).is_fenced

    def let_expire(self, *brokers: int) -> None:
        """One lease passes; everybody but these brokers keeps sending heartbeats."""
        alive = [b for b in self.image.brokers if b not in brokers]
        for _ in range(self.settings.session_timeout_ms // 1000):
            self.now_ms += 1000
            for broker in alive:
                self.beat(broker, fence=self.image.brokers[broker].fenced)
        for _ in brokers:
            self.tick()

    # -- partitions -------------------------------------------------------------------------

    def create(self, name: str, *assignment: tuple[int, ...], **configs: str) -> PartitionId:
        """A topic with these replicas; returns its first partition."""
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        response = self.ask(CreateTopicRequest(name, assignment=assignment, configs=settings))
        assert isinstance(response, CreateTopicResponse)
        assert response.error is Error.NONE, response
        return PartitionId(response.topic_id, 0)

    def partition(self, name: PartitionId) -> PartitionState:
        state = self.image.partition(name)
        assert state is not None
        return state

    def proposal(self, name: PartitionId, *isr: int, **changes: Any) -> IsrProposal:
        """What its leader would propose, with the epochs of everybody as they are now."""
        partition = self.partition(name)
        members = tuple(IsrMember(broker, self.epoch_of(broker)) for broker in isr)
        proposal = IsrProposal(name, partition.leader_epoch, partition.partition_epoch, members)
        return proposal._replace(**changes)

    def propose_request(self, broker: int, *proposals: IsrProposal) -> AlterPartitionRequest:
        return AlterPartitionRequest(broker, self.epoch_of(broker), proposals)

    def propose(self, broker: int, proposal: IsrProposal) -> IsrResult:
        response = self.ask(self.propose_request(broker, proposal))
        assert response.error is Error.NONE
        (result,) = response.results
        assert isinstance(result, IsrResult)
        return result

    def _uuid(self) -> bytes:
        self._uuids += 1
        return (1000 + self._uuids).to_bytes(16, "big")
