"""Probes of the data plane: logs, replicas, produces and fetches."""

from collections.abc import Sequence
from typing import Any

from tidelog.broker.fetch.own_writes import OwnSyncs
from tidelog.broker.fetch.session_reader import SessionReader
from tidelog.broker.replication.hosted import Hosted
from tidelog.broker.replication.replicas import Replicas
from tidelog.core import events
from tidelog.core.errors import NO_ERROR
from tidelog.core.replication.effects import AnswerProduce
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import ACKS_ALL, LATEST, FollowerFetch
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.replication.replica import Replica
from tidelog.core.replication.sent_positions import SentFetch, SentPositions
from tidelog.core.types import PartitionId
from tidelog.sim.judge import Judge
from tidelog.sim.nodes.probes import Method, Probe
from tidelog.sim.nodes.view import HostedReplica, NodesView
from tidelog.sim.nodes.view_log import ShadowBatch, shadow_batch
from tidelog.storage.errors import StorageError
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.wire.records import BatchHeader

HIGH_WATERMARK_MOVED = (events.HighWatermarkAdvanced, events.HighWatermarkLowered)

Duplicate = tuple[AppendedBatch, BatchHeader]
"""What a log holds already, and the header of the batch that repeats it."""


class DataProbes:
    """Tells the judge what happens to replicas and their logs."""

    def __init__(self, judge: Judge, view: NodesView) -> None:
        self._judge = judge
        self._view = view
        self._arrived: list[ShadowBatch] = []
        """What the append under way has written."""
        self._cutting = False
        self._duplicates: dict[object, Duplicate] = {}
        self._parked: dict[object, int] = {}
        """Produces that wait for the high watermark, with the offset behind their records."""
        self._sent: dict[SentFetch, dict[PartitionId, FollowerFetch]] = {}
        """Fetches under way, with every position that they stand for."""
        self._asked_for: dict[PartitionId, FollowerFetch] = {}
        """Positions of the fetch whose answer is being heard."""
        self._repeated: Duplicate | None = None

    def all(self) -> list[Probe]:
        return [
            Probe(Log, "_append", self._around_append),
            Probe(Log, "append_all_as_leader", self._around_append_as_leader),
            Probe(Log, "append_as_follower", self._around_append_as_follower),
            Probe(Log, "truncate_to", self._around_cut),
            Probe(Log, "truncate_fully_and_start_at", self._around_cut),
            Probe(Log, "raise_log_start", self._around_raise_log_start),
            Probe(LogDirectory, "raise_log_starts", self._around_raise_log_starts),
            Probe(Log, "replace_segments", self._around_compaction),
            Probe(Replica, "__init__", self._around_host),
            Probe(Replica, "stop", self._around_stop),
            Probe(Replica, "move_to", self._around_move),
            Probe(Replica, "apply_metadata", self._around_metadata),
            Probe(Replica, "list_offset", self._around_list_offset),
            Probe(LeaderReplica, "on_isr_result", self._around_isr_result),
            Probe(LeaderReplica, "_announce", self._around_announce),
            Probe(LeaderReplica, "check_produce", self._around_check_produce),
            Probe(LeaderReplica, "await_commit", self._around_await_commit),
            Probe(LeaderReplica, "await_duplicate", self._around_await_duplicate),
            Probe(Replicas, "_answer_produce", self._around_answer),
            Probe(LeaderReplica, "on_follower_fetch", self._around_follower_fetch),
            Probe(SessionReader, "_read", self._around_read),
            Probe(SentPositions, "send", self._around_send),
            Probe(SentFetch, "answered", self._around_answered),
            Probe(FollowerReplica, "on_fetch_answer", self._around_fetch_answer),
        ]

    def on_event(self, node: int, event: events.Event) -> None:
        if isinstance(event, HIGH_WATERMARK_MOVED):
            hosted = self._view.hosted(node, event.partition)
            if hosted is not None:
                self._judge.high_watermark_moved(hosted, event.previous)

    # -- logs

    def _around_append(self, original: Method) -> Method:
        def append(log: Log, datas: Sequence[Any], headers: Sequence[Any]) -> None:
            hosted = self._view.of_log(log)
            if hosted is None:
                original(log, datas, headers)
                return
            shadow = hosted.log
            shadow.arriving = datas
            try:
                original(log, datas, headers)
            except StorageError:
                shadow.failed()
                raise
            shadow.arriving = ()
            for data in datas:
                batches = shadow.contents.batches_in(data)
                shadow.append(batches)
                self._arrived += batches

        return append

    def _around_append_as_leader(self, original: Method) -> Method:
        def append_all_as_leader(log: Log, batches: Sequence[Any], leader_epoch: int) -> Any:
            self._arrived = []
            headers = original(log, batches, leader_epoch)
            hosted = self._view.of_log(log)
            if hosted is not None:
                for batch in self._arrived:
                    self._judge.leader_appended(hosted, batch)
            return headers

        return append_all_as_leader

    def _around_append_as_follower(self, original: Method) -> Method:
        def append_as_follower(log: Log, batches: Sequence[Any], headers: Any = None) -> None:
            self._arrived = []
            try:
                original(log, batches, headers)
            finally:  # on a full disk the batches that fit are kept
                hosted = self._view.of_log(log)
                if hosted is not None and self._arrived:
                    self._judge.follower_appended(hosted, tuple(self._arrived))

        return append_as_follower

    def _around_cut(self, original: Method) -> Method:
        def cut(log: Log, offset: int) -> None:
            hosted = self._view.of_log(log)
            if hosted is None or self._cutting:
                original(log, offset)
                return
            previous_end = log.log_end_offset
            self._cutting = True
            hosted.log.cut_to = offset
            try:
                original(log, offset)
            finally:
                self._cutting = False
            hosted.log.cut_to = None
            hosted.log.follow_cut()
            if self._view.of_log(log) is not None:
                self._judge.truncated(hosted, previous_end)

        return cut

    def _around_raise_log_start(self, original: Method) -> Method:
        def raise_log_start(log: Log, offset: int) -> None:
            hosted = self._view.of_log(log)
            if hosted is not None:
                hosted.log.starts.append(offset)
            original(log, offset)

        return raise_log_start

    def _around_raise_log_starts(self, original: Method) -> Method:
        """On disk before the logs move: a crash in between leaves the later start."""

        def raise_log_starts(directory: LogDirectory, raised: Sequence[tuple[Log, int]]) -> None:
            for log, offset in raised:
                hosted = self._view.of_log(log)
                if hosted is not None and offset > log.log_start_offset:
                    hosted.log.starts.append(offset)
            original(directory, raised)

        return raise_log_starts

    def _around_compaction(self, original: Method) -> Method:
        """Logs that agreed differ from then on in what was compacted: their ends are compared."""

        def replace_segments(log: Log, *segments: Any, **named: Any) -> None:
            hosted = self._view.of_log(log)
            if hosted is not None and self._judge.chronicle is not None:
                self._judge.chronicle.facts(hosted.partition).chained = False
            original(log, *segments, **named)

        return replace_segments

    # -- replicas

    def _around_host(self, original: Method) -> Method:
        def host(replica: Replica, *arguments: Any, **named: Any) -> None:
            original(replica, *arguments, **named)
            recovery = self._view.host(replica)
            if recovery is not None:
                self._judge.log_recovered(recovery)

        return host

    def _around_stop(self, original: Method) -> Method:
        def stop(replica: Replica, now_ms: int) -> Any:
            effects = original(replica, now_ms)
            self._view.drop(replica)
            return effects

        return stop

    def _around_move(self, original: Method) -> Method:
        def move_to(replica: Replica, log: Any) -> None:
            original(replica, log)
            self._view.moved(replica)

        return move_to

    def _around_metadata(self, original: Method) -> Method:
        def apply_metadata(replica: Replica, metadata: Any, brokers: Any, now_ms: int) -> Any:
            before = replica.role
            isr_before = before.isr if isinstance(before, LeaderReplica) else None
            epoch_before, leader_before = replica.leader_epoch, replica.leader
            effects = original(replica, metadata, brokers, now_ms)
            hosted = self._view.of_replica(replica)
            role = replica.role
            if hosted is None:
                return effects
            if isinstance(role, LeaderReplica):
                if isr_before is None or replica.leader_epoch != epoch_before:
                    self._judge.became_leader(hosted, bool(metadata.leader_recovery_state))
                elif role.isr != isr_before:
                    self._judge.isr_adopted(hosted, isr_before)
            elif (replica.leader_epoch, replica.leader) != (epoch_before, leader_before):
                self._judge.became_follower(hosted)
            return effects

        return apply_metadata

    def _around_isr_result(self, original: Method) -> Method:
        def on_isr_result(role: LeaderReplica, result: Any, now_ms: int) -> Any:
            isr_before = role.isr
            effects = original(role, result, now_ms)
            hosted = self._view.of_replica(role.state)
            if hosted is not None and role.isr != isr_before:
                self._judge.isr_adopted(hosted, isr_before)
            return effects

        return on_isr_result

    def _around_announce(self, original: Method) -> Method:
        def announce(role: LeaderReplica, proposed: Any, proposal: Any, effects: Any) -> None:
            original(role, proposed, proposal, effects)
            hosted = self._view.of_replica(role.state)
            if hosted is not None:
                self._judge.isr_proposed(hosted, proposal)

        return announce

    # -- produce

    def _around_check_produce(self, original: Method) -> Method:
        def check_produce(role: LeaderReplica, header: BatchHeader, acks: int, **named: Any) -> Any:
            check = original(role, header, acks, **named)
            self._repeated = None if check.duplicate is None else (check.duplicate, header)
            if check.error is not NO_ERROR:
                hosted = self._view.of_replica(role.state)
                if hosted is not None:
                    end = hosted.log.log_end_offset
                    self._judge.produce_refused(hosted, check.error, end)
            return check

        return check_produce

    def _around_await_commit(self, original: Method) -> Method:
        def await_commit(
            role: LeaderReplica, token: object, required_offset: int, now_ms: int
        ) -> Any:
            if not isinstance(token, OwnSyncs):  # a question, of records that anybody wrote
                self._parked[token] = required_offset
            return original(role, token, required_offset, now_ms)

        return await_commit

    def _around_await_duplicate(self, original: Method) -> Method:
        def await_duplicate(
            role: LeaderReplica, token: object, duplicate: AppendedBatch, now_ms: int
        ) -> Any:
            if self._repeated is not None:
                self._duplicates[token] = self._repeated
            return original(role, token, duplicate, now_ms)

        return await_duplicate

    def _around_answer(self, original: Method) -> Method:
        """Where the shell answers, so that an answer which the leader has not decided is heard."""

        def answer_produce(replicas: Replicas, hosted: Hosted, effect: AnswerProduce) -> None:
            required_offset = self._parked.pop(effect.token, 0)
            duplicate = self._duplicates.pop(effect.token, None)
            seen = self._view.of_replica(hosted.replica)
            if effect.error is NO_ERROR and seen is not None:
                self._acknowledged(seen, required_offset, duplicate)
            original(replicas, hosted, effect)

        return answer_produce

    def _acknowledged(
        self, hosted: HostedReplica, required_offset: int, duplicate: Duplicate | None
    ) -> None:
        if duplicate is not None:
            first, header = duplicate
            kept = hosted.log.batch_at(first.first_offset)
            repeated = shadow_batch(header, None if kept is None else kept.content)
            self._judge.duplicate_answered(hosted, first, repeated, ACKS_ALL)
            return
        batch = hosted.log.batch_at(required_offset - 1)
        if batch is not None:
            self._judge.produce_acked(hosted, batch, ACKS_ALL)

    # -- fetches

    def _around_follower_fetch(self, original: Method) -> Method:
        def on_follower_fetch(role: LeaderReplica, fetch: Any, now_ms: int) -> Any:
            decision, effects = original(role, fetch, now_ms)
            hosted = self._view.of_replica(role.state)
            if hosted is not None:
                self._judge.follower_fetched(hosted, fetch, decision)
            return decision, effects

        return on_follower_fetch

    def _around_send(self, original: Method) -> Method:
        def send(positions: SentPositions) -> SentFetch:
            sent: SentFetch = original(positions)
            self._sent[sent] = dict(positions.newest)
            return sent

        return send

    def _around_answered(self, original: Method) -> Method:
        def answered(sent: SentFetch) -> None:
            self._asked_for = self._sent.pop(sent, {})
            original(sent)

        return answered

    def _around_fetch_answer(self, original: Method) -> Method:
        def on_fetch_answer(role: FollowerReplica, fetch: Any, answer: Any, now_ms: int) -> Any:
            partition = role.state.partition
            asked = self._asked_for.get(partition)
            if asked is not None and self._view.of_replica(role.state) is not None:
                self._judge.answer_heard(partition, asked, fetch)
            return original(role, fetch, answer, now_ms)

        return on_fetch_answer

    def _around_read(self, original: Method) -> Method:
        """Whatever is read for a consumer, byte for byte."""

        def read(
            reader: SessionReader, hosted: Hosted, fetch: Any, scope: Any, *rest: Any, **n: Any
        ) -> Any:
            look = original(reader, hosted, fetch, scope, *rest, **n)
            if scope.is_follower or not len(look.records):
                return look
            seen = self._view.of_replica(hosted.replica)
            if seen is not None:
                records = look.records
                data = records if isinstance(records, memoryview | bytes) else records.read()
                batches = seen.log.contents.batches_in(data)
                self._judge.consumer_read(0, seen, batches, fetch.fetch_offset)
                if scope.read_committed:
                    shown = visible(batches, look.aborted)
                    self._judge.committed_read(0, seen.partition, shown)
            return look

        return read

    def _around_list_offset(self, original: Method) -> Method:
        def list_offset(replica: Replica, which: int, leader_epoch: int, **named: Any) -> Any:
            answer = original(replica, which, leader_epoch, **named)
            asked_by_client = named.get("client", True) and not named.get("read_committed", False)
            if which == LATEST and asked_by_client and answer.error is NO_ERROR:
                hosted = self._view.of_replica(replica)
                if hosted is not None:
                    self._judge.latest_answered(hosted, answer.offset)
            return answer

        return list_offset


def visible(batches: Sequence[ShadowBatch], aborted: Sequence[Any]) -> list[ShadowBatch]:
    """What a `read_committed` consumer shows, by the list of aborted transactions it was given."""
    shown = []
    left = {(each.producer_id, each.first_offset) for each in aborted}
    open_aborted: dict[int, None] = {}
    for batch in batches:
        for producer_id, first_offset in sorted(left):
            if first_offset <= batch.last_offset:
                open_aborted[producer_id] = None
                left.discard((producer_id, first_offset))
        if batch.is_control:
            open_aborted.pop(batch.producer_id, None)
        elif not (batch.is_transactional and batch.producer_id in open_aborted):
            shown.append(batch)
    return shown
