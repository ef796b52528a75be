"""Events that tell what a committed record changed.

Only the active controller announces, at the moment of commit, so each fact is told once by
the claim that decided it. What happened is read off the committed image just before the
record is replayed into it.
"""

from tidelog.core import events
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.types import NO_LEADER, PartitionId


def announce(image: MetadataImage, record: r.MetadataRecord) -> list[events.Event]:
    if isinstance(record, r.PartitionChange):
        return announce_partition_change(image, record)
    if isinstance(record, r.Partition):
        return [announce_new_partition(record)]
    if isinstance(record, r.RegisterBroker):
        known = image.brokers.get(record.broker_id)
        amended = known is not None and known.broker_epoch == record.broker_epoch
        return [] if amended else [events.BrokerRegistered(record.broker_id, record.broker_epoch)]
    if isinstance(record, r.BrokerRegistrationChange):
        return announce_registration_change(record)
    return []


def announce_partition_change(
    image: MetadataImage, record: r.PartitionChange
) -> list[events.Event]:
    before = image.partition(PartitionId(record.topic_id, record.partition))
    assert before is not None, record
    told: list[events.Event] = []
    isr = before.isr if record.isr is None else record.isr
    if record.leader != r.LEADER_UNCHANGED:
        told.append(
            events.LeaderElected(
                before.id,
                before.leader,
                record.leader,
                before.leader_epoch + 1,
                before.partition_epoch + 1,
                isr,
                is_unclean(before, record),
            )
        )
    elr = before.elr if record.elr is None else record.elr
    if isr != before.isr or elr != before.elr:
        told.append(
            events.IsrCommitted(before.id, before.isr, isr, elr, before.partition_epoch + 1)
        )
    return told


def is_unclean(before: PartitionState, record: r.PartitionChange) -> bool:
    """The leader comes from outside of what held every committed record.

    A reassignment may hand over to a replica that joins the ISR in this very record; that one
    is clean, and it is told apart by the recovery state that every unclean leader starts in.
    """
    if record.leader == NO_LEADER or record.leader in before.isr or record.leader in before.elr:
        return False
    recovering = before.leader_recovery_state
    if record.leader_recovery_state is not None:
        recovering = record.leader_recovery_state
    return recovering == r.RECOVERING


def announce_new_partition(record: r.Partition) -> events.Event:
    return events.LeaderElected(
        PartitionId(record.topic_id, record.partition),
        NO_LEADER,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.isr,
        unclean=False,
    )


def announce_registration_change(record: r.BrokerRegistrationChange) -> list[events.Event]:
    broker, epoch = record.broker_id, record.broker_epoch
    told: list[events.Event] = []
    if record.in_controlled_shutdown > 0:
        told.append(events.ControlledShutdownStarted(broker, epoch))
    if record.fenced > 0:
        told.append(events.BrokerFenced(broker, epoch))
    elif record.fenced < 0:
        told.append(events.BrokerUnfenced(broker, epoch))
    return told
