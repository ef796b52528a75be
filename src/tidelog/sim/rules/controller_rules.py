"""Rules about the controller and what it commits (kraft.md §12, rules 11 to 19; ADR 0017)."""

from bisect import bisect_right
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.held_answers import may_be_held
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.requests import (
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerRequest,
    ControllerResponse,
    CreateTopicResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrProposal,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import NO_LEADER, LogEntry
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.isr_rules import answered, leaves
from tidelog.sim.rules.plain_image import Committed, PlainImage, plain
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import Report, WorldView, label

UNCLEAN_ALLOWED = "unclean.leader.election.enable"


class ControllerIsReplay(Rule):
    """A controller's state is the replay of the committed log, plus on the active one the replay
    of what it has written since; when it steps down only the committed part is left."""

    name = "K11 controller state is replay"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._sweeps = 0

    def controller_renounced(self, node: int, epoch: int, controller: Any) -> None:
        if controller.current is not None:
            self.broken(f"node {node} kept its pending state after epoch {epoch}")
        self._check(node, controller)

    def sweep(self) -> None:
        """Comparing images is dear: now and then is enough, a difference does not go away."""
        self._sweeps += 1
        if self._sweeps % 16 == 0:
            self._check_all()

    def finish(self) -> None:
        self._check_all()

    def _check_all(self) -> None:
        for node, controller in self.world.controllers():
            self._check(node, controller)
            if controller.current is not None:
                self._check_pending(node, controller)

    def _check(self, node: int, controller: Any) -> None:
        image = self.chronicle.replayer.image_at(controller.committed_end)
        difference = plain(controller.committed).difference(image)
        if difference is not None:
            self.broken(f"node {node} at offset {controller.committed_end}: {difference}")

    def _check_pending(self, node: int, controller: Any) -> None:
        image = self.chronicle.replayer.image_at(controller.committed_end).copy()
        for entry in self.chronicle.quorum.log(node).entries_from(controller.committed_end):
            if not entry.control:
                for record in entry.records:
                    image.apply(record)
        difference = plain(controller.current).difference(image)
        if difference is not None:
            self.broken(f"active controller {node}, with what is pending: {difference}")


class AnswersAreCommitted(Rule):
    """A controller answers success only while its claim lasts, and everything the answer says
    is committed by then. An administrator whom it answers later is told of records that this
    claim wrote: the commit the node has just heard of is of no other epoch."""

    name = "K12 answers are committed"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._claims: dict[int, int] = {}
        self._former: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._registered: dict[int, list[int]] = {}
        self._unfenced: dict[int, list[int]] = {}
        self._topics: dict[bytes, str] = {}

    def controller_claimed(self, node: int, epoch: int) -> None:
        self._claims[node] = epoch

    def controller_renounced(self, node: int, epoch: int, _controller: object) -> None:
        self._claims.pop(node, None)
        self._former[node] = epoch
        self._heard.pop(node, None)

    def node_stopped(self, node: int, _kind: str) -> None:
        for known in (self._claims, self._former, self._heard):
            known.pop(node, None)

    def metadata_committed(self, node: int, entry: LogEntry) -> None:
        self._heard[node] = entry.epoch

    def record_committed(self, record: object, _entry: LogEntry) -> None:
        if isinstance(record, r.RegisterBroker):
            self._registered.setdefault(record.broker_id, []).append(record.broker_epoch)
            if not record.fenced:
                self._unfenced.setdefault(record.broker_id, []).append(record.broker_epoch)
        elif isinstance(record, r.BrokerRegistrationChange) and record.fenced < 0:
            self._unfenced.setdefault(record.broker_id, []).append(record.broker_epoch)
        elif isinstance(record, r.Topic):
            self._topics[record.topic_id] = record.name

    def controller_answered(
        self, node: int, request: ControllerRequest, response: ControllerResponse
    ) -> None:
        if response.error is not Error.NONE:
            return
        if node not in self._claims and not self._may_be_late(node, request):
            self.broken(f"node {node} answered {request} with success and is not the controller")
        if isinstance(response, AlterPartitionResponse):
            assert isinstance(request, AlterPartitionRequest), request
            self._check_isr_results(node, request, response)
        elif isinstance(response, RegisterBrokerResponse):
            assert isinstance(request, RegisterBrokerRequest), request
            if response.broker_epoch not in self._registered.get(request.broker_id, ()):
                self._early(node, request, response)
        elif isinstance(response, HeartbeatResponse):
            assert isinstance(request, HeartbeatRequest), request
            unfenced = self._unfenced.get(request.broker_id, ())
            if not response.is_fenced and request.broker_epoch not in unfenced:
                self._early(node, request, response)
        elif isinstance(response, CreateTopicResponse):
            if response.topic_id and response.topic_id not in self._topics:
                self._early(node, request, response)
        elif (
            isinstance(response, AllocateProducerIdsResponse)
            and response.start + response.size > self.chronicle.image.next_producer_id
        ):
            self._early(node, request, response)

    def _may_be_late(self, node: int, request: ControllerRequest) -> bool:
        return node in self._former and (
            may_be_held(request) and self._heard.get(node) == self._former[node]
        )

    def _check_isr_results(
        self, node: int, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> None:
        for proposal, result in answered(request, response):
            if result.error is not Error.NONE:
                continue
            history = self.chronicle.facts(result.partition).history
            if leaves(request.broker_id, proposal):
                self._check_left(node, request.broker_id, proposal)
                continue
            committed = history.get(result.partition_epoch)
            if committed is None or (committed.leader_epoch, sorted(committed.isr)) != (
                result.leader_epoch,
                sorted(result.isr),
            ):
                self.broken(
                    f"node {node} answered {result}, committed for that partition epoch is"
                    f" {committed}"
                )

    def _check_left(self, node: int, broker: int, proposal: IsrProposal) -> None:
        history = self.chronicle.facts(proposal.partition).history
        later = [c for epoch, c in history.items() if epoch > proposal.partition_epoch]
        if all(broker in committed.isr for committed in later):
            self.broken(
                f"node {node} told broker {broker} that it has left the ISR of"
                f" {label(proposal.partition)} after partition epoch {proposal.partition_epoch};"
                " nothing like that is committed"
            )

    def _early(self, node: int, request: ControllerRequest, response: ControllerResponse) -> None:
        self.broken(f"node {node} answered {request} with {response} before it was committed")


class OneIncarnation(Rule):
    """A broker epoch belongs to one incarnation, rises with every new one, and a change of a
    registration names the epoch that is registered."""

    name = "K13 one incarnation per broker"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._highest: dict[int, int] = {}

    def record_committed(self, record: object, entry: LogEntry) -> None:
        if isinstance(record, r.RegisterBroker):
            self._check_registration(record, entry)
        elif isinstance(record, r.BrokerRegistrationChange | r.UnregisterBroker):
            known = self.chronicle.image.brokers.get(record.broker_id)
            if known is None or known.broker_epoch != record.broker_epoch:
                self.broken(f"offset {entry.offset}: {record} changes {known}")

    def _check_registration(self, record: r.RegisterBroker, entry: LogEntry) -> None:
        known = self.chronicle.image.brokers.get(record.broker_id)
        highest = self._highest.get(record.broker_id, -1)
        self._highest[record.broker_id] = max(highest, record.broker_epoch)
        if known is not None and known.incarnation_id == record.incarnation_id:
            if record.broker_epoch != known.broker_epoch or (known.fenced and not record.fenced):
                self.broken(f"offset {entry.offset}: {record} amends {known}")
        elif record.broker_epoch <= highest or not record.fenced:
            self.broken(
                f"offset {entry.offset}: {record} follows broker epoch {highest} and must be"
                " above it and fenced"
            )


class OnlyActiveBrokersLead(Rule):
    """When a batch is committed no fenced or unregistered broker leads a partition, and nobody
    is elected who is not active."""

    name = "K14 only active brokers lead"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._elected: list[PartitionFacts] = []
        self._touched: list[int] = []

    def record_committed(self, record: object, _entry: LogEntry) -> None:
        if isinstance(record, r.BrokerRegistrationChange | r.UnregisterBroker | r.RegisterBroker):
            self._touched.append(record.broker_id)

    def partition_changed(self, facts: PartitionFacts, before: Committed, _record: object) -> None:
        if facts.state.leader_epoch != before.leader_epoch and facts.state.leader != NO_LEADER:
            self._elected.append(facts)

    def entry_committed(self, entry: LogEntry) -> None:
        if not self._elected and not self._touched:
            return
        brokers = self.chronicle.image.brokers
        for facts in self._elected:
            leader = brokers.get(facts.state.leader)
            if facts.state.leader != NO_LEADER and (leader is None or not leader.active):
                self.broken(
                    f"{label(facts.id)}: offset {entry.offset} elects {facts.state.leader},"
                    f" which is {leader}"
                )
        for broker in self._touched:
            registration = brokers.get(broker)
            if registration is None or registration.fenced:
                self._check_leads_nothing(broker, entry)
        self._elected.clear()
        self._touched.clear()

    def _check_leads_nothing(self, broker: int, entry: LogEntry) -> None:
        for partition, state in self.chronicle.image.partitions.items():
            if state.leader == broker:
                self.broken(
                    f"{label(partition)}: broker {broker} is not active any more at offset"
                    f" {entry.offset} and still leads"
                )


class EpochBumps(Rule):
    """A partition begins with epochs 0; a change names a leader, and so raises the leader epoch,
    exactly when the leader changes, a replica is dropped, or it is elected uncleanly anew."""

    name = "K15 epoch bumps"

    def partition_changed(
        self,
        facts: PartitionFacts,
        before: Committed,
        record: r.PartitionChange | r.Partition,
    ) -> None:
        after = facts.state
        if isinstance(record, r.Partition):
            if (after.leader_epoch, after.partition_epoch) != (0, 0) or before.partition_epoch >= 0:
                self.broken(f"{label(facts.id)}: created as {after} after {before}")
            return
        if before.partition_epoch < 0:
            return  # K18 says that it does not exist
        bumped = record.leader != r.LEADER_UNCHANGED
        dropped = any(replica not in after.replicas for replica in before.replicas)
        due = after.leader != before.leader or dropped
        unclean = record.leader_recovery_state == r.RECOVERING
        if bumped != due and not (bumped and unclean):
            self.broken(
                f"{label(facts.id)} at partition epoch {after.partition_epoch}: leader epoch"
                f" {before.leader_epoch} -> {after.leader_epoch} with leader {before.leader} ->"
                f" {after.leader}, replicas {before.replicas} -> {after.replicas}"
            )


class CleanElections(Rule):
    """A new leader comes from the ISR or the ELR before it, or joins the ISR with the change
    that completes a reassignment. An outsider is elected only where somebody allowed it or as
    last known leader, is marked as recovering, and is counted."""

    name = "K16 clean elections"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self.unclean_elections = 0

    def partition_changed(
        self,
        facts: PartitionFacts,
        before: Committed,
        record: r.PartitionChange | r.Partition,
    ) -> None:
        leader = facts.state.leader
        if isinstance(record, r.Partition) or leader in (before.leader, NO_LEADER):
            return
        if leader in before.isr or leader in before.elr or _joined_by_moving(record, leader):
            return
        self.unclean_elections += 1
        marked = facts.state.recovery_state == r.RECOVERING and facts.state.isr == (leader,)
        last_known = before.last_known_elr == (leader,)
        if marked and (last_known or self._allowed(facts)):
            return
        self.broken(
            f"{label(facts.id)}: {leader} is elected for epoch {facts.state.leader_epoch}, neither"
            f" in the ISR {before.isr} nor in the ELR {before.elr} (last known"
            f" {before.last_known_elr}, recovery state {facts.state.recovery_state})"
        )

    def _allowed(self, facts: PartitionFacts) -> bool:
        image = self.chronicle.image
        topic = image.topics.get(facts.id.topic_id, "")
        for resource in ((r.RESOURCE_TOPIC, topic), (r.RESOURCE_BROKER, "")):
            if image.configs.get((*resource, UNCLEAN_ALLOWED)) == "true":
                return True
        return not self.world.expected_durable(facts.id)


def _joined_by_moving(record: r.PartitionChange, leader: int) -> bool:
    """The old leader's proposal that lets a replica in may complete a reassignment that leaves
    the old leader out: then the newcomer leads at once. R04 looks at what it holds."""
    return record.replicas is not None and record.isr is not None and leader in record.isr


class SnapshotIsReplay(Rule):
    """A snapshot holds exactly what replaying the committed log up to its end gives, and never
    anything that is not committed."""

    name = "K17 snapshot equals replay"

    def snapshot_taken(
        self, node: int, end_offset: int, records: tuple[object, ...], committed_offset: int
    ) -> None:
        committed = min(committed_offset, self.chronicle.quorum.committed_end)
        if end_offset > committed:
            self.broken(f"node {node} took a snapshot at {end_offset}, committed is {committed}")
            return
        taken = PlainImage()
        for record in records:
            taken.apply(record)
        self._compare(node, end_offset, taken, "took")

    def snapshot_installed(self, node: int, end_offset: int, image: MetadataImage) -> None:
        self._compare(node, end_offset, plain(image), "installed")

    def _compare(self, node: int, end_offset: int, taken: PlainImage, verb: str) -> None:
        difference = taken.difference(self.chronicle.replayer.image_at(end_offset))
        if difference is not None:
            self.broken(f"node {node} {verb} a snapshot at {end_offset}: {difference}")


class TopicsAreWhole(Rule):
    """Topic names are unique, and partitions exist only inside an existing topic, so that a
    removed topic is gone with all its partitions at once."""

    name = "K18 topics are whole"

    def record_committed(self, record: object, entry: LogEntry) -> None:
        topics = self.chronicle.image.topics
        if isinstance(record, r.Topic):
            if record.topic_id in topics or record.name in topics.values():
                self.broken(f"offset {entry.offset}: topic {record.name} exists already")
        elif (
            isinstance(record, r.RemoveTopic | r.Partition | r.PartitionChange)
            and record.topic_id not in topics
        ):
            self.broken(f"offset {entry.offset}: {record} names no existing topic")

    def partition_changed(
        self,
        facts: PartitionFacts,
        before: Committed,
        record: r.PartitionChange | r.Partition,
    ) -> None:
        if isinstance(record, r.PartitionChange) and before.partition_epoch < 0:
            self.broken(f"{label(facts.id)}: {record} changes a partition that does not exist")


class ProducerIdsDisjoint(Rule):
    """Blocks of producer ids never overlap."""

    name = "K19 producer ids are disjoint"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._blocks: list[tuple[int, int]] = []

    def record_committed(self, record: object, entry: LogEntry) -> None:
        if isinstance(record, r.ProducerIds):
            following = self.chronicle.image.next_producer_id
            if record.next_producer_id <= following:
                self.broken(f"offset {entry.offset}: {record} after next id {following}")

    def controller_answered(
        self, node: int, _request: ControllerRequest, response: ControllerResponse
    ) -> None:
        if not isinstance(response, AllocateProducerIdsResponse) or response.size <= 0:
            return
        block = (response.start, response.start + response.size)
        index = bisect_right(self._blocks, block)
        for other in self._blocks[max(0, index - 1) : index + 1]:
            if other[0] < block[1] and block[0] < other[1]:
                self.broken(f"node {node} gave out producer ids {block}, {other} was given before")
        self._blocks.insert(index, block)


class HintsFenceOnlyTheDead(Rule):
    """A hint never fences a live process: who is fenced because a connection was closed and the
    next one refused is an incarnation that does not run any more."""

    name = "K21 hints fence only the dead"

    def fenced_by_hint(self, node: int, broker: int, incarnation_id: bytes) -> None:
        if self.world.incarnation_of(broker) == incarnation_id:
            self.broken(f"controller {node} took broker {broker} for dead, which is running")
