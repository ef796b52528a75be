"""Eligible leader replicas (KIP-966): who else holds every committed record.

Why a member of the ELR may lead without losing an acknowledged record:

1. The high watermark moves only while the committed ISR has at least `effective_min_isr`
   members, and only over what every one of them holds (replication.md §8.3 and rule 9). So a
   record is acknowledged only while the ISR is that large, and every member has it.
2. A replica enters the ELR only straight from the ISR, by a change that leaves the ISR below
   the minimum. At that moment it holds every committed record (1), and none is added while the
   ISR stays below the minimum (1 again). Its log may be behind the leader's, never behind the
   high watermark.
3. As soon as an ISR is large enough again, records may be committed without the ELR, so the ELR
   is dropped in that same change. This is checked again after an election: a lone leader can be
   a full ISR when the minimum is one.
4. A replica that restarted uncleanly may have lost a tail it had acknowledged. It leaves the
   ISR and the ELR in the change that registers it, and does not enter the ELR by it.
5. An uncleanly elected leader may lack committed records and others will truncate to its log,
   so it starts with an empty ELR.

The leader and the controller must agree on the minimum in (1) and (2). The leader may know less
than the controller: it learns of a new ISR from the answer to its own proposal, ahead of the
metadata log. A leader that still counts with a *higher* minimum is merely careful, so lowering
is safe if the ELRs are recomputed no later than the config record. A leader that still counts
with a *lower* minimum would commit with an ISR that we consider too small, behind the back of
the ELR; therefore raising the minimum restates the ISR of each partition, and the new partition
epoch makes its leader read the metadata log before any further proposal is accepted
(`partition_change.after_min_isr_change`). A growing assignment raises the minimum too, but
that is a partition change by itself.
"""

from typing import NamedTuple

from tidelog.core.metadata.image import PartitionState
from tidelog.core.types import NO_LEADER


class ElrInputs(NamedTuple):
    """What the next ELR depends on: the partition before, and the sets of the change."""

    partition: PartitionState
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    uncleanly_restarted: tuple[int, ...]
    min_insync_replicas: int
    elr_enabled: bool


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """A minimum above the assignment could never be met, so it is capped by it."""
    assert min_insync_replicas >= 1, f"min.insync.replicas={min_insync_replicas} is below 1"
    return min(min_insync_replicas, replica_count)


def isr_can_commit(isr: tuple[int, ...], min_insync_replicas: int, replica_count: int) -> bool:
    """May the high watermark move with this ISR? If so, nobody outside of it is safe to elect."""
    return len(isr) >= effective_min_isr(min_insync_replicas, replica_count)


def next_elr(inputs: ElrInputs) -> tuple[int, ...]:
    """The ELR that goes with the new ISR, in the order of the assignment.

    Switched off, nobody enters; members from before stay until the ISR has recovered, since
    they may be the only ones left that can lead cleanly.
    """
    if isr_can_commit(inputs.isr, inputs.min_insync_replicas, len(inputs.replicas)):
        return ()
    before = inputs.partition
    holders = before.elr + before.isr if inputs.elr_enabled else before.elr
    holders = without_uncleanly_restarted(holders, inputs.uncleanly_restarted)
    # Only replicas: one that a reassignment dropped no longer follows and may delete its log.
    elr = tuple(b for b in inputs.replicas if b in holders and b not in inputs.isr)
    assert inputs.elr_enabled or len(elr) <= len(before.elr), f"ELR {before.elr} grew to {elr}"
    return elr


def without_uncleanly_restarted(
    members: tuple[int, ...], uncleanly_restarted: tuple[int, ...]
) -> tuple[int, ...]:
    """A crash may take acknowledged records that were not yet synced: the seat is lost."""
    return tuple(member for member in members if member not in uncleanly_restarted)


def next_last_known_elr(inputs: ElrInputs) -> tuple[int, ...]:
    """Who led last, noted when the ISR runs empty: the one to wait for if the ELR dies out too.

    A partition that was leaderless already, with one member left in its ISR (ELR was off then),
    had that member as its last leader.
    """
    before = inputs.partition
    if inputs.isr:
        kept = before.last_known_elr
        if isr_can_commit(inputs.isr, inputs.min_insync_replicas, len(inputs.replicas)):
            kept = ()
    elif before.leader != NO_LEADER:
        kept = (before.leader,)
    elif len(before.isr) == 1:
        kept = before.isr
    else:
        kept = before.last_known_elr
    assert len(kept) <= 1 or kept == before.last_known_elr, f"{kept} after {before.last_known_elr}"
    return tuple(broker for broker in kept if broker in inputs.replicas)
