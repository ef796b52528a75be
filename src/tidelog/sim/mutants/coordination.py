"""M27–M34, M45, M48: rules of transactions and groups."""

from collections.abc import Callable
from typing import Any

from tidelog.coordinators.shard import Shard
from tidelog.core.coordination import Marker, ProducerStamp
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups import absence, consumer
from tidelog.core.groups.absence import Silence
from tidelog.core.groups.classic import ClassicGroups
from tidelog.core.groups.consumer import ConsumerGroups
from tidelog.core.groups.consumer_reconcile import Goal, reconcile
from tidelog.core.groups.offsets import Offsets
from tidelog.core.groups.records import CurrentAssignmentValue, OffsetCommit, TopicPartitions
from tidelog.core.replication import producers
from tidelog.core.replication.producers import ProducerStates
from tidelog.core.replication.verification import Verifications
from tidelog.core.transactions import machine, rules
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.transactions.records import TransactionValue
from tidelog.core.transactions.requests import EndTransaction
from tidelog.sim.mutants.patch import Mutant, Patch


def _any_epoch_may_end(
    _: TransactionMachine, request: EndTransaction, value: TransactionValue | None
) -> Error:
    if value is None or request.producer_id != rules.identity(value).producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    return NO_ERROR


def _always(*_: Any) -> bool:
    return True


def _never(*_: Any) -> bool:
    return False


def _no_error(*_: Any) -> Error:
    return NO_ERROR


def _second_oldest(states: ProducerStates, high_watermark: int) -> int | None:
    open_offsets = list(states._open.values())
    return open_offsets[1] if len(open_offsets) > 1 else None


_replay_marker = Offsets.replay_marker


def _every_end_commits(offsets: Offsets, marker: Marker) -> None:
    _replay_marker(offsets, marker._replace(commit=True))


def _take_everything(
    current: CurrentAssignmentValue,
    goal: Goal,
    owned: TopicPartitions | None,
    _is_free: Callable[[Any], bool],
) -> CurrentAssignmentValue:
    return reconcile(current, goal, owned, _always)


_replay_offset = Offsets.replay


def _keep_what_is_deleted(
    offsets: Offsets, record: OffsetCommit, stamp: ProducerStamp | None
) -> None:
    if record.value is not None:
        _replay_offset(offsets, record, stamp)


_replay = Shard.replay


def _forget_offsets(shard: Shard, records: tuple[object, ...], stamp: ProducerStamp | None) -> None:
    kept = tuple(record for record in records if not isinstance(record, OffsetCommit))
    _replay(shard, kept, stamp)


def _at_once(silence: Silence, _usual_ms: int, *, client_is_there: bool) -> int:
    return silence.heard_ms


MUTANTS = (
    Mutant("M27", "the epoch of an EndTxn is not looked at (KAFKA-17754)",
           (Patch(TransactionMachine, "_check_end", _any_epoch_may_end),),
           focus=("kill", "late")),
    Mutant("M28", "a batch that comes after the end of its transaction is accepted",
           (Patch(machine, "_verified", _no_error), Patch(Verifications, "is_valid", _always)),
           focus=("kill", "late")),
    Mutant("M29", "a marker of a former coordinator is accepted",
           (Patch(producers, "coordinator_is_fenced", _never),),
           focus=("stale_coordinator", "late")),
    Mutant("M30", "the last stable offset does not wait for the oldest open transaction",
           (Patch(ProducerStates, "first_unstable_offset", _second_oldest),),
           focus=("kill", "isolate", "transactional", "readers")),
    Mutant("M31", "offsets of an aborted transaction count",
           (Patch(Offsets, "replay_marker", _every_end_commits),),
           focus=("kill", "isolate", "processors")),
    Mutant("M32", "members of an old generation commit offsets",
           (Patch(ClassicGroups, "check_commit", _no_error),
            Patch(ConsumerGroups, "check_commit", _no_error)),
           focus=("kill", "groups")),
    Mutant("M33", "a member is given a partition that another has not given up",
           (Patch(consumer, "reconcile", _take_everything),),
           focus=("kill", "groups")),
    Mutant("M34", "a new coordinator does not read the offsets in its log",
           (Patch(Shard, "replay", _forget_offsets),),
           focus=("kill", "elect", "groups")),
    Mutant("M45", "a closed connection alone evicts a member of a group",
           (Patch(absence, "deadline_ms", _at_once),),
           focus=("reset_all", "quiet_groups")),
    Mutant("M48", "offsets that were deleted still count",
           (Patch(Offsets, "replay", _keep_what_is_deleted),),
           focus=("kill", "keepers")),
)  # fmt: skip
