"""M14–M20, M22–M24, M41 to M43, M47: rules of the quorum and the controller."""

from typing import Any

from tidelog.controller import liveness
from tidelog.core.failover import ProbeOutcome
from tidelog.core.metadata import alter_partition, elections, registration
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.held_answers import HeldAnswers
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.replay import image_records
from tidelog.core.quorum import rules
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import NEVER_MS
from tidelog.core.types import LogEntry
from tidelog.quorum import member
from tidelog.sim.mutants.patch import Mutant, Patch


def _keep_vote_in_memory(node: QuorumNode, effects: list[Any]) -> None:
    return


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


def _never(now_ms: int, fetch_timeout_ms: int, needed_voters: int) -> int:
    return NEVER_MS


def _anybody_acceptable(broker: int, isr: tuple[int, ...], elr: tuple[int, ...]) -> bool:
    return True


def _no_seats_lost(*_: Any) -> list[Any]:
    return []


def _snapshot_of_pending_state(controller: Controller) -> tuple[MetadataRecord, ...]:
    return image_records(controller.current or controller.committed)


def _any_failure_confirms(outcome: ProbeOutcome) -> bool:
    return outcome is not ProbeOutcome.ACCEPTED


_on_broker_gone = Controller.on_broker_gone


def _whoever_is_registered_is_gone(
    controller: Controller, broker_id: int, broker_epoch: int, now_ms: int
) -> list[Any]:
    if broker_epoch < 0:
        return []
    return _on_broker_gone(controller, broker_id, controller.registered_epoch(broker_id), now_ms)


_on_committed = HeldAnswers.on_committed


def _any_commit_is_of_the_lost_claim(held: HeldAnswers, entry: LogEntry) -> list[Any]:
    return _on_committed(held, entry._replace(epoch=held.epoch))


def _leave_copies_valid(*_: Any) -> None:
    return None


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
    _one("M14", "a vote is granted without being stored",
         QuorumNode, "_persist_vote", _keep_vote_in_memory,
         "power_loss", "kill", "pause"),
    _one("M15", "a vote is granted to a candidate that knows less",
         rules, "up_to_date", _yes,
         "isolate", "kill", "power_loss"),
    _one("M16", "a record of an older epoch is committed by counting copies",
         rules, "own_epoch_covered", _yes,
         "isolate", "kill", "split"),
    _one("M17", "a leader is elected from outside ISR and ELR",
         elections, "holds_all_committed", _anybody_acceptable,
         "wipe", "kill", "power_loss"),
    _one("M18", "an ISR proposal made from an old partition epoch is accepted",
         alter_partition, "partition_epoch_is_old", _no,
         "deaf_leader", "writers"),
    _one("M19", "an ISR proposal naming a former incarnation is accepted (KIP-903)",
         alter_partition, "names_this_incarnation", _yes,
         "late_join", "writers"),
    _one("M20", "a broker that crashed keeps its seat in the ISR (KIP-966)",
         registration, "seats_lost_by_restart", _no_seats_lost,
         "wipe", "power_loss"),
    _one("M22", "a leader that nobody fetches from goes on leading",
         rules, "check_quorum_deadline_ms", _never,
         "lonely_controller", "writers"),
    _one("M23", "a snapshot contains records that are not committed",
         Controller, "snapshot_records", _snapshot_of_pending_state,
         "isolate", "kill"),
    Mutant("M24", "any failed probe is taken for the death of a process",
           (Patch(liveness, "confirms_death", _any_failure_confirms),
            Patch(member, "confirms_death", _any_failure_confirms)),
           focus=("reset_all", "cut", "isolate")),
    _one("M41", "a copy of a refused ISR proposal may still be accepted",
         alter_partition, "outdate_copies", _leave_copies_valid,
         "refused_join", "writers"),
    _one("M42", "a proof of death fences whichever incarnation is registered by then",
         Controller, "on_broker_gone", _whoever_is_registered_is_gone,
         "late_refusal", "writers"),
    _one("M43", "a former controller takes whatever is committed at its offset for its own record",
         HeldAnswers, "on_committed", _any_commit_is_of_the_lost_claim,
         "lonely_controller", "churn"),
    Mutant("M47", "a node follows a leader whose log lacks what it knows to be committed",
           (Patch(rules, "keeps_committed", _yes),),
           depth="story", focus=("k16_reformatted_majority",)),
)  # fmt: skip
