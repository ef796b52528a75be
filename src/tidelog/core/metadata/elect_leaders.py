"""Elections somebody asked for, and those a timer asks for (kraft.md §6.1, §8)."""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata import balance, partition_change
from tidelog.core.metadata.contexts import Contexts
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.elections import Election
from tidelog.core.metadata.image import PartitionState
from tidelog.core.metadata.partition_change import WantedChange
from tidelog.core.metadata.records import MetadataRecord, PartitionChange
from tidelog.core.requests import (
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from tidelog.core.types import PartitionId


class BalanceStep(NamedTuple):
    records: tuple[MetadataRecord, ...]
    full: bool
    """There may be more to move: look again soon."""


def decide_elect_leaders(view: View, request: ElectLeadersRequest) -> Decision:
    if request.election_type not in (ELECT_PREFERRED, ELECT_UNCLEAN):
        return Decision(ElectLeadersResponse(Error.INVALID_REQUEST))
    contexts = Contexts(view)
    results: list[tuple[PartitionId, Error]] = []
    records: list[MetadataRecord] = []
    for name in asked_partitions(view, request):
        partition = view.image.partition(name)
        if partition is None:
            results.append((name, Error.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        error, change = partition_change.elect_on_request(
            partition, request.election_type, contexts.of(partition)
        )
        if change is not None:
            records.append(change)
        # Asked for "all", only partitions that needed something are worth a line.
        if request.partitions is not None or error is not Error.ELECTION_NOT_NEEDED:
            results.append((name, error))
    return Decision(ElectLeadersResponse(Error.NONE, tuple(results)), tuple(records))


def asked_partitions(view: View, request: ElectLeadersRequest) -> list[PartitionId]:
    """Each once: two elections of one partition would be decided from the same state."""
    if request.partitions is None:
        return [partition.id for partition in view.image.partitions()]
    return list(dict.fromkeys(request.partitions))


def balance_leaders(view: View) -> BalanceStep:
    """Give leadership back to preferred leaders, at most a batch of elections at a time."""
    rebalance = balance.partitions_to_balance(view.image, view.settings.leader_imbalance_percentage)
    wanted = WantedChange(election=Election.PREFERRED)
    records = changes_of(view, rebalance.partitions, wanted)
    return BalanceStep(tuple(records), rebalance.full)


def elect_waiting(view: View) -> tuple[MetadataRecord, ...]:
    """Leaderless partitions whose topics allow unclean election by now."""
    contexts = Contexts(view)
    waiting = [
        partition
        for partition in view.image.partitions_without_leader()
        if contexts.of(partition).unclean_allowed
    ]
    return tuple(changes_of(view, waiting, WantedChange()))


def changes_of(
    view: View, partitions: list[PartitionState] | tuple[PartitionState, ...], wanted: WantedChange
) -> list[PartitionChange]:
    contexts = Contexts(view)
    changes = (
        partition_change.build_change(partition, wanted, contexts.of(partition))
        for partition in partitions
    )
    return [change for change in changes if change is not None]
