"""M1–M13, M21, M25, M26, M44: rules of leader, follower, ISR and sequences."""

from typing import Any

from tidelog.core.errors import Error
from tidelog.core.replication import isr, reads
from tidelog.core.replication.effects import AnswerProduce, Effect
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import FetchAnswer, FetchDecision, FollowerFetch
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import AppendedBatch, ProducerStates
from tidelog.core.replication.sent_positions import SentFetch
from tidelog.core.types import EpochEnd, PartitionId
from tidelog.sim.mutants.patch import Mutant, Patch
from tidelog.storage import log, recovery
from tidelog.storage.errors import CorruptFile


def _ack_at_once(
    leader: LeaderReplica, token: object, required_offset: int, now_ms: int
) -> list[Effect]:
    return [AnswerProduce(leader.state.partition, token, Error.NONE)]


def _furthest_replica(leader: LeaderReplica, now_ms: int) -> int:
    ends = [progress.log_end_offset for progress in leader.progress.values()]
    return min(max([leader.state.log.durable_offset, *ends]), leader.state.log.log_end_offset)


def _cut_to_high_watermark(follower: FollowerReplica) -> int | None:
    log, high_watermark = follower.state.log, follower.state.high_watermark
    return high_watermark if log.log_end_offset > high_watermark else None


_end_offset_for = EpochHistory.end_offset_for


def _echo_the_epoch(history: EpochHistory, epoch: int, log_end_offset: int) -> EpochEnd:
    """KIP-101 without KIP-279: the offset is right, the epoch is the one that was asked for."""
    end = _end_offset_for(history, epoch, log_end_offset)
    return EpochEnd(epoch, end.end_offset) if end.leader_epoch >= 0 else end


def _every_epoch_is_fine(request_epoch: int, local_epoch: int) -> Error:
    return Error.NONE


def _diverging_counts(
    leader: LeaderReplica, fetch: FollowerFetch, now_ms: int
) -> tuple[FetchDecision, list[Effect]]:
    """The follower is told to truncate and believed to hold what it asked for."""
    decision = leader.serve_parked(fetch)
    end = leader.state.log.log_end_offset
    if decision.diverging is not None and fetch.fetch_offset <= end:
        effects: list[Effect] = []
        leader.progress[fetch.replica_id].acknowledge(fetch, end, now_ms)
        leader._advance_high_watermark(now_ms, effects)
        return decision, effects
    return _on_follower_fetch(leader, fetch, now_ms)


_on_follower_fetch = LeaderReplica.on_follower_fetch
_on_diverging = FollowerReplica.on_diverging


def _believe_diverging_high_watermark(
    follower: FollowerReplica, answer: FetchAnswer, diverging: EpochEnd, now_ms: int
) -> list[Effect]:
    effects = follower._follow_leader(answer.high_watermark, answer.log_start_offset)
    return [*effects, *_on_diverging(follower, answer, diverging, now_ms)]


def _yes(*_: Any) -> bool:
    return True


def _proposed_isr(leader: LeaderReplica) -> tuple[int, ...]:
    return leader.isr_state.proposed_isr


def _whole_log(role: LeaderReplica | FollowerReplica, read_committed: bool) -> int:
    return role.state.log.log_end_offset


def _propose_any_time(leader: LeaderReplica) -> bool:
    return leader.leads()


def _forget_sequences(producers: ProducerStates, *_: Any, **__: Any) -> list[CorruptFile]:
    producers.clear()
    return []


def _answer_duplicate_at_once(
    leader: LeaderReplica, token: object, duplicate: AppendedBatch, now_ms: int
) -> list[Effect]:
    return [AnswerProduce(leader.state.partition, token, Error.NONE)]


def newest_position(sent: SentFetch, partition: PartitionId) -> FollowerFetch | None:
    return sent.session.newest.get(partition)


def _one(
    name: str,
    title: str,
    owner: Any,
    attribute: str,
    replacement: Any,
    *focus: str,
) -> Mutant:
    return Mutant(name, title, (Patch(owner, attribute, replacement),), focus=focus)


MUTANTS = (
    _one("M1", "acks=all is answered before the high watermark gets there",
         LeaderReplica, "await_commit", _ack_at_once,
         "isolate", "kill"),
    _one("M2", "high watermark is the largest log end, not the smallest",
         LeaderReplica, "committed_offset", _furthest_replica,
         "isolate", "kill"),
    _one("M3", "a new follower truncates to its high watermark (KIP-101)",
         FollowerReplica, "initial_truncation", _cut_to_high_watermark,
         "isolate", "kill"),
    _one("M4", "divergence is answered with the epoch asked for (KIP-279)",
         EpochHistory, "end_offset_for", _echo_the_epoch,
         "leaders_by_turns", "writers"),
    _one("M5", "the leader epoch of a fetch is not checked (KIP-320)",
         reads, "fence", _every_epoch_is_fine,
         "isolate", "pause"),
    _one("M6", "a diverging fetch counts as progress (KAFKA-13141)",
         LeaderReplica, "on_follower_fetch", _diverging_counts,
         "isolate", "pause", "kill"),
    _one("M7", "the high watermark of a diverging answer is believed (KAFKA-14704)",
         FollowerReplica, "on_diverging", _believe_diverging_high_watermark,
         "isolate", "kill"),
    _one("M8", "a replica may join the ISR below the epoch start (KAFKA-7128)",
         LeaderReplica, "has_reached_epoch_start", _yes,
         "blind_successor", "writers"),
    _one("M9", "the high watermark follows the proposed ISR, not the maximal one",
         LeaderReplica, "maximal_isr", _proposed_isr,
         "isolate", "pause", "controller_cut"),
    _one("M10", "an ISR change of unknown outcome is taken back",
         isr, "certainly_not_applied", _yes,
         "deaf_leader", "writers"),
    _one("M11", "consumers read to the log end of the leader",
         LeaderReplica, "read_limit", _whole_log,
         "isolate", "pause", "readers"),
    _one("M12", "a follower serves consumers above its high watermark",
         FollowerReplica, "read_limit", _whole_log,
         "isolate", "rack_readers"),
    _one("M13", "min.insync.replicas is checked only before the append",
         LeaderReplica, "enough_replicas_to_commit", _yes,
         "isolate", "kill"),
    _one("M21", "a second ISR change is proposed while one is in flight",
         LeaderReplica, "may_propose", _propose_any_time,
         "pause", "isolate", "slow_network"),
    Mutant("M25", "sequences are not rebuilt from the log",
           (Patch(log, "rebuild", _forget_sequences),
            Patch(recovery, "rebuild", _forget_sequences)),
           focus=("kill", "reset_all")),
    _one("M26", "a duplicate is acknowledged before it is replicated",
         LeaderReplica, "await_duplicate", _answer_duplicate_at_once,
         "isolate", "reset_all"),
    _one("M44", "an answer is judged by the newest position, not by that of its own request",
         SentFetch, "position", newest_position,
         "elect", "pause", "writers"),
)  # fmt: skip
