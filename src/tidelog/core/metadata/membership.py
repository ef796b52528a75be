"""How a broker gains and loses its seats: fencing, unfencing, leaving (kraft.md §5.2).

Taking a broker away always goes in this order: first a PartitionChange for every partition
that has it in its ISR, then the record that changes the broker itself.

With many partitions the records fill more than one batch, and a controller may die after
some of them are committed. That half is safe: each PartitionChange stands on its own (its
leader is active and in its ISR), and the broker itself is still as free as before. The next
controller sees an ordinary broker that lacks some seats. If it is alive, the leaders ask for
it again when it has caught up; if it is dead, its fresh lease ends and the rest follows. The
other order would leave a fenced broker as a leader that nobody moves again.
"""

from tidelog.core.metadata import partition_change
from tidelog.core.metadata.contexts import Contexts
from tidelog.core.metadata.decision import View
from tidelog.core.metadata.image import BrokerRegistration, PartitionState
from tidelog.core.metadata.partition_change import WantedChange
from tidelog.core.metadata.records import (
    BrokerRegistrationChange,
    MetadataRecord,
    PartitionChange,
)


def fence(view: View, broker: BrokerRegistration) -> tuple[MetadataRecord, ...]:
    assert not broker.fenced, broker
    fencing = BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, fenced=1)
    return (*leave_isrs(view, broker.broker_id), fencing)


def unfence(view: View, broker: BrokerRegistration) -> tuple[MetadataRecord, ...]:
    """Free again, it may be what leaderless partitions have been waiting for."""
    assert broker.fenced, broker
    unfencing = BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, fenced=-1)
    return (unfencing, *elections_for(view, broker.broker_id))


def start_controlled_shutdown(view: View, broker: BrokerRegistration) -> tuple[MetadataRecord, ...]:
    assert broker.active, broker
    leaving = BrokerRegistrationChange(
        broker.broker_id, broker.broker_epoch, in_controlled_shutdown=1
    )
    return (*leave_isrs(view, broker.broker_id), leaving)


def dismiss(view: View, broker: BrokerRegistration) -> tuple[MetadataRecord, ...]:
    """The broker is told to stop. That it wanted to go is written down with the fence, so that
    no late heartbeat of this incarnation can unfence it."""
    fencing = int(not broker.fenced)
    leaving = int(not broker.in_controlled_shutdown)
    if not fencing and not leaving:
        return ()
    change = BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, fencing, leaving)
    return (*leave_isrs(view, broker.broker_id), change)


def leave_isrs(view: View, broker: int) -> list[PartitionChange]:
    """It keeps its log, so with ELR on it may stay eligible where the ISR runs short."""
    contexts = Contexts(view)
    changes = (
        partition_change.leave_isr(partition, broker, contexts.of(partition))
        for partition in view.image.partitions_in_sync_on(broker)
    )
    return [change for change in changes if change is not None]


def lose_all_seats(
    view: View, broker: int, *, disk_replaced: bool = False
) -> list[PartitionChange]:
    """Out of every ISR and every ELR: nobody may count on what is on its disk any more."""
    contexts = Contexts(view)
    seated = view.image.partitions_in_sync_on(broker) + view.image.partitions_eligible_on(broker)
    seated.sort(key=partition_order)
    changes = (
        partition_change.lose_seats(
            partition, broker, contexts.of(partition), disk_replaced=disk_replaced
        )
        for partition in seated
    )
    return [change for change in changes if change is not None]


def elections_for(view: View, broker: int) -> list[PartitionChange]:
    """Leaderless partitions that this broker, active from now on, can lead."""
    image = view.image
    contexts = Contexts(view, lambda other: other == broker or image.is_active(other))
    changes = (
        partition_change.build_change(partition, WantedChange(), contexts.of(partition))
        for partition in image.partitions_without_leader()
        if broker in partition.replicas
    )
    return [change for change in changes if change is not None]


def partition_order(partition: PartitionState) -> tuple[bytes, int]:
    return partition.id.topic_id, partition.id.partition
