"""A follower of one partition (replication.md §7).

It asks for what comes after its log end and says which leader epoch its last record has. The
leader answers with records, or with the place where the two logs part; then the follower cuts
its log there and asks again. It never cuts for any other reason it could avoid: its high
watermark is only a rumour of the past, and records above it may be committed (KIP-101).

Phases:

    FETCHING ──records──→ APPENDING ──on_appended──→ FETCHING
    FETCHING ──diverging epoch──→ TRUNCATING ──on_truncated──→ FETCHING
    FETCHING ──offset out of range──→ ASKING ──on_leader_offsets──→ TRUNCATING or FETCHING

No state lasts without a retry. After any other error the follower backs off and asks again, also
after a fence: the metadata that names the next leader makes a new object, and if there is no next
leader the fence was a mistake. A phase whose end got lost is given up (`retry_lost_phase`).

The position is always read from the log itself, so it cannot be forgotten: an empty answer
leaves the last fetched epoch as it is (KAFKA-15510). An object lives for one leader epoch.
"""

from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.events import HighWatermarkAdvanced, HighWatermarkLowered, LogTruncated
from tidelog.core.replication import reads
from tidelog.core.replication.effects import (
    AppendBatches,
    AskLeaderOffsets,
    Effect,
    RaiseLogStart,
    RestartLog,
    TruncateLog,
)
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.inputs import FetchAnswer, FollowerFetch
from tidelog.core.replication.state import ReplicaState
from tidelog.core.replication.throttle import UNKNOWN_LAG
from tidelog.core.types import NO_EPOCH, NO_LEADER, BatchHeader, EpochEnd

FETCHING = 0
APPENDING = 1
TRUNCATING = 2
ASKING = 3

PATIENCE_IN_LAG_TIMES = 2
"""After so many times `replica.lag.time.max.ms` something that should have happened is lost."""


class FollowerReplica:
    __slots__ = (
        "cuts_damage",
        "delay_until_ms",
        "failing_since_ms",
        "failure",
        "lag",
        "leader",
        "leader_epoch",
        "phase",
        "phase_since_ms",
        "state",
        "truncated_from",
    )

    def __init__(self, state: ReplicaState) -> None:
        assert state.leader != state.broker_id, f"{state.broker_id} follows itself"
        self.state = state
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.phase = FETCHING
        self.phase_since_ms = 0
        self.delay_until_ms = 0
        self.failing_since_ms: int | None = None
        """When the first of all failures since the last sound answer came."""
        self.failure = NO_ERROR
        """What the last of them was; NO_ERROR if no answer came, or none that made sense."""
        self.lag = UNKNOWN_LAG
        self.truncated_from = 0
        self.cuts_damage = False
        """The truncation under way is about records that cannot be read."""

    # ---- becoming follower ----

    def begin(self, now_ms: int) -> list[Effect]:
        """Keep the log as it is; whether it agrees with the leader's is for the fetch to say."""
        offset = self.initial_truncation()
        if offset is None:
            return []
        return [self._cut_to(offset, now_ms)]

    def initial_truncation(self) -> int | None:
        """Only a log without any leader epoch has to be cut blindly, to the high watermark:
        nothing else can be asked about it (the second step of the ladder, §7.2)."""
        log, high_watermark = self.state.log, self.state.high_watermark
        if log.epochs.entries or log.log_end_offset <= high_watermark:
            return None
        return high_watermark

    def retry_lost_phase(self, now_ms: int) -> list[Effect] | None:
        """An append or a cut that failed half way, or an answer that got lost, would leave us
        waiting for ever. The log says where it really is: go on from there. None if all is well."""
        patience_ms = PATIENCE_IN_LAG_TIMES * self.state.settings.replica_lag_time_max_ms
        if self.phase == FETCHING or now_ms - self.phase_since_ms < patience_ms:
            return None
        self.phase = FETCHING
        self._back_off(now_ms)
        return self.begin(now_ms)

    def _enter(self, phase: int, now_ms: int) -> None:
        self.phase = phase
        self.phase_since_ms = now_ms

    # ---- fetching ----

    def next_fetch(self, now_ms: int) -> FollowerFetch | None:
        """Where to continue, or None while there is nobody to ask or something to finish first.
        A log that is not durable to its end waits too: the offset is an acknowledgement."""
        state = self.state
        log = state.log
        fetch_offset = log.log_end_offset
        if (
            self.phase != FETCHING
            or self.leader == NO_LEADER
            or now_ms < self.delay_until_ms
            or log.durable_offset < fetch_offset
            or self.leader_epoch != state.leader_epoch
        ):
            return None
        return FollowerFetch(
            state.broker_id,
            state.broker_epoch,
            self.leader_epoch,
            fetch_offset,
            log.epochs.latest_epoch,
            log.log_start_offset,
        )

    def on_fetch_answer(
        self, fetch: FollowerFetch, answer: FetchAnswer, now_ms: int
    ) -> list[Effect]:
        if self.ignores_answer_to(fetch, now_ms):
            return []
        if answer.error is not NO_ERROR:
            return self.on_fetch_error(answer.error, now_ms)
        if answer.diverging is not None:
            return self.on_diverging(answer, answer.diverging, now_ms)
        batches = batches_up_to(answer.batches, self.leader_epoch)
        if not batches:
            return self._follow_leader(answer.high_watermark, answer.log_start_offset)
        return self._append(batches, answer, now_ms)

    def ignores_answer_to(self, fetch: FollowerFetch, now_ms: int) -> bool:
        """An answer fits only the log it was asked for: not a late, repeated or overtaken one."""
        log = self.state.log
        return (
            self.phase != FETCHING
            or now_ms < self.delay_until_ms
            or fetch.leader_epoch != self.leader_epoch
            or fetch.leader_epoch != self.state.leader_epoch
            or fetch.fetch_offset != log.log_end_offset
            or fetch.last_fetched_epoch != log.epochs.latest_epoch
        )

    def on_fetch_error(self, error: Error, now_ms: int) -> list[Effect]:
        if error is Error.OFFSET_OUT_OF_RANGE:
            self._enter(ASKING, now_ms)
            return [AskLeaderOffsets(self.state.partition, self.leader, self.leader_epoch)]
        self._back_off(now_ms, error)
        return []

    def on_fetch_failed(self, now_ms: int) -> None:
        """No answer came, to a fetch or to the question for the leader's offsets."""
        if self.phase == ASKING:
            self.phase = FETCHING
        self._back_off(now_ms)

    def _back_off(self, now_ms: int, failure: Error = NO_ERROR) -> None:
        self.delay_until_ms = now_ms + self.state.settings.replica_fetch_backoff_ms
        self.failure = failure
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms

    # ---- records ----

    def _append(
        self, batches: tuple[BatchHeader, ...], answer: FetchAnswer, now_ms: int
    ) -> list[Effect]:
        state = self.state
        effects: list[Effect] = []
        first, next_offset = batches[0], state.log.log_end_offset
        if first.base_offset < next_offset and self.starts_inside(first):
            # The leader's log start fell inside a batch: whole batches only, so begin there.
            next_offset = first.base_offset
            effects.append(RestartLog(state.partition, next_offset))
        if not offsets_increase(batches, next_offset):
            self._back_off(now_ms)
            return []
        self._enter(APPENDING, now_ms)
        effects.append(
            AppendBatches(state.partition, batches, answer.high_watermark, answer.log_start_offset)
        )
        return effects

    def starts_inside(self, batch: BatchHeader) -> bool:
        log = self.state.log
        return log.log_start_offset == log.log_end_offset <= batch.last_offset

    def on_appended(self, effect: AppendBatches, now_ms: int) -> list[Effect]:
        assert self.state.log.log_end_offset == effect.batches[-1].last_offset + 1, (
            f"log ends at {self.state.log.log_end_offset} after appending "
            f"up to {effect.batches[-1].last_offset}"
        )
        self.phase = FETCHING
        return self._follow_leader(effect.leader_high_watermark, effect.leader_log_start)

    def on_append_failed(self, now_ms: int) -> None:
        """The disk did not take all of the records. What is in the log counts; the rest is
        asked for again, after a pause that may give the disk space."""
        assert self.phase == APPENDING, f"phase {self.phase} when an append failed"
        self.phase = FETCHING
        self._back_off(now_ms)

    def _follow_leader(self, leader_high_watermark: int, leader_log_start: int) -> list[Effect]:
        """Sound answers carry the leader's high watermark and log start, records or not."""
        state = self.state
        effects: list[Effect] = []
        self.failing_since_ms = None
        self.lag = max(0, leader_high_watermark - state.log.log_end_offset)
        self._move_high_watermark(self.followed_high_watermark(leader_high_watermark), effects)
        log_start = min(leader_log_start, state.high_watermark)
        if log_start > state.log.log_start_offset:
            effects.append(RaiseLogStart(state.partition, log_start))
        return effects

    def followed_high_watermark(self, leader_high_watermark: int) -> int:
        """What the leader says, as far as we hold it. It may be lower than what an earlier
        leader said: the new one has not heard from the whole ISR yet."""
        return self.state.within_log(leader_high_watermark)

    def _move_high_watermark(self, high_watermark: int, effects: list[Effect]) -> None:
        state, previous = self.state, self.state.high_watermark
        if high_watermark == previous:
            return
        state.move_high_watermark(high_watermark)
        moved = HighWatermarkAdvanced if high_watermark > previous else HighWatermarkLowered
        effects.append(moved(state.partition, state.broker_id, previous, high_watermark))

    # ---- truncation (§7.1) and the ladder (§7.2) ----

    def on_diverging(self, answer: FetchAnswer, diverging: EpochEnd, now_ms: int) -> list[Effect]:
        """Cut, and nothing else. The answer's high watermark is about the leader's log, and may
        lie above the point where ours parts from it (KAFKA-14704)."""
        log = self.state.log
        log_end_offset = log.log_end_offset
        offset = truncation_offset(log.epochs, log_end_offset, diverging)
        entries = log.epochs.entries
        if offset >= log_end_offset and (not entries or entries[-1][1] < log_end_offset):
            self._back_off(now_ms)  # nothing to cut: asking again at once would get the same
            return []
        return [self._cut_to(offset, now_ms)]

    def cut_damaged(self, offset: int, now_ms: int) -> list[Effect]:
        """Our own records from here on cannot be read any more, and the leader has them. Only for
        a replica that cannot be elected: nobody counts on what it cuts (ADR 0036)."""
        end = self.state.log.log_end_offset
        assert offset < end, f"damage at {offset} of a log that ends at {end}"
        if self.phase != FETCHING:
            return []
        cut = self._cut_to(offset, now_ms)
        self.cuts_damage = True
        return [cut]

    def _cut_to(self, offset: int, now_ms: int) -> Effect:
        state = self.state
        self._enter(TRUNCATING, now_ms)
        self.cuts_damage = False
        self.truncated_from = state.log.log_end_offset
        if offset < state.log.log_start_offset:
            return RestartLog(state.partition, offset)
        return TruncateLog(state.partition, offset)

    def on_truncated(self, now_ms: int) -> list[Effect]:
        """Truncating below the own high watermark takes an unclean election or damage: it is
        reported."""
        state = self.state
        effects: list[Effect] = []
        log_end_offset = state.log.log_end_offset
        if self.phase == TRUNCATING and log_end_offset != self.truncated_from:
            effects.append(
                LogTruncated(
                    state.partition,
                    state.broker_id,
                    self.truncated_from,
                    log_end_offset,
                    log_end_offset < state.high_watermark,
                    self.cuts_damage,
                )
            )
        self._move_high_watermark(state.within_log(state.high_watermark), effects)
        if self.phase == TRUNCATING:
            self.phase = FETCHING  # else records follow at once
        return effects

    def on_truncation_failed(self, now_ms: int) -> None:
        """Records that are to stay cannot be read, and nothing was cut. Once they are mended, the
        leader is asked again where we part."""
        assert self.phase == TRUNCATING, f"phase {self.phase} when a truncation failed"
        self.phase = FETCHING
        self._back_off(now_ms)

    def on_leader_offsets(
        self, leader_log_start: int, leader_log_end: int, now_ms: int
    ) -> list[Effect]:
        """Our position is outside the leader's log. Cut what it never had, or start over where
        it begins; if a mismatched tail stays, the next fetch's epoch will find it."""
        if self.phase != ASKING or self.leader_epoch != self.state.leader_epoch:
            return []
        log_end_offset = self.state.log.log_end_offset
        if leader_log_end < log_end_offset:
            return [self._cut_to(leader_log_end, now_ms)]
        if leader_log_start > log_end_offset:
            self._enter(TRUNCATING, now_ms)
            self.truncated_from = log_end_offset
            return [RestartLog(self.state.partition, leader_log_start)]
        self.phase = FETCHING
        self._back_off(now_ms)  # in range by now; do not ask in a circle at full speed
        return []

    # ---- consumer reads ----

    def read_limit(self, read_committed: bool) -> int:
        """KIP-392: a consumer reads here only what this replica knows to be committed."""
        return reads.consumer_limit(self.state, read_committed)


def truncation_offset(epochs: EpochHistory, log_end_offset: int, diverging: EpochEnd) -> int:
    """Where to cut when the leader's largest epoch not above ours ends at `diverging`.

    If we do not know that epoch we cut back to the end of our own largest one below it and ask
    again: each round takes at least one of our epochs, so it ends (KIP-279).
    """
    local = epochs.end_offset_for(diverging.leader_epoch, log_end_offset)
    if local.leader_epoch == NO_EPOCH:
        return min(diverging.end_offset, log_end_offset)
    if local.leader_epoch != diverging.leader_epoch:
        return min(local.end_offset, log_end_offset)
    return min(local.end_offset, diverging.end_offset, log_end_offset)


def batches_up_to(batches: tuple[BatchHeader, ...], leader_epoch: int) -> tuple[BatchHeader, ...]:
    """KAFKA-18723: bytes can change under an answer that was queued before its sender was
    demoted and truncated. Records of a later epoch cannot be part of this leader's answer."""
    for index, batch in enumerate(batches):
        if batch.leader_epoch > leader_epoch:
            return batches[:index]
    return batches


def offsets_increase(batches: tuple[BatchHeader, ...], next_offset: int) -> bool:
    """Compaction leaves gaps between batches, never overlaps."""
    for batch in batches:
        if batch.base_offset < next_offset:
            return False
        next_offset = batch.last_offset + 1
    return True
