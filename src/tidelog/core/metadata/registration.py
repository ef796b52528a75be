"""Registering and unregistering brokers (kraft.md §5.1).

The incarnation id is new with every start of a process. The same one again is a repeated or
amended request of a living process; another one means that the process was replaced, and
then what the controller believed about its log has to be judged anew.
"""

from tidelog.core.errors import Error
from tidelog.core.metadata import membership, replay
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.image import BrokerRegistration, MetadataImage
from tidelog.core.metadata.records import (
    Endpoint,
    MetadataRecord,
    PartitionChange,
    RegisterBroker,
    UnregisterBroker,
)
from tidelog.core.metadata.sessions import Lease
from tidelog.core.requests import (
    AdminResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from tidelog.core.types import NO_EPOCH

RESERVED_DIRECTORY_IDS = 100
"""The lowest ids mean things like "lost" or "not assigned" in Kafka's records."""


def decide_registration(
    view: View, request: RegisterBrokerRequest, lease: Lease, next_offset: int
) -> Decision:
    """`next_offset`, where the next record will be written, is the new broker epoch: it is
    larger than every epoch before it, on whichever controller."""
    known = view.image.brokers.get(request.broker_id)
    if request.cluster_id != view.settings.cluster_id:
        return Decision(RegisterBrokerResponse(Error.INCONSISTENT_CLUSTER_ID))
    if known is not None and keeps_its_seat(known, request, lease):
        return Decision(RegisterBrokerResponse(Error.DUPLICATE_BROKER_REGISTRATION))
    if request.broker_id < 0 or not log_dirs_are_usable(view.image, request):
        return Decision(RegisterBrokerResponse(Error.INVALID_REGISTRATION))
    if known is not None and not is_rival(known, request):
        return amend(known, request)
    assert known is None or next_offset > known.broker_epoch, (next_offset, known)
    # One batch, and the seats go first: at no offset does the image show the new incarnation
    # in a seat that only the old one had earned. (If there are more seats than fit into a
    # batch, a committed part of them leaves the old registration, and the restarted broker
    # asks again with the same facts.)
    records: list[MetadataRecord] = list(seats_lost_by_restart(view, known, request))
    records.append(registration_record(request, next_offset))
    return Decision(RegisterBrokerResponse(Error.NONE, next_offset), tuple(records))


def is_rival(known: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    """Another process under the same id."""
    return known.incarnation_id != request.incarnation_id


def keeps_its_seat(known: BrokerRegistration, request: RegisterBrokerRequest, lease: Lease) -> bool:
    """Is this a rival that has to wait for the lease of the process that we know?

    While that process is connected, every rival has to, whatever directories it holds: they may
    be a copy. Otherwise its own next life need not: it proves that the former one is over.
    """
    if not lease.valid or not is_rival(known, request):
        return False
    return lease.connected or not is_next_life(known, request)


def is_next_life(known: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    """Started again in its place: it holds the lock of a directory of the former process, and
    listens where that one did. One process at a time can do either; a copy of a directory has a
    lock of its own, but not the address."""
    holds_its_directory = not set(known.log_dirs).isdisjoint(request.log_dirs)
    former = {(endpoint.host, endpoint.port) for endpoint in known.endpoints}
    return holds_its_directory and former == {(host, port) for _, host, port in request.endpoints}


def log_dirs_are_usable(image: MetadataImage, request: RegisterBrokerRequest) -> bool:
    log_dirs = request.log_dirs
    if len(set(log_dirs)) != len(log_dirs):
        return False
    if any(int.from_bytes(log_dir, "big") < RESERVED_DIRECTORY_IDS for log_dir in log_dirs):
        return False
    return not any(
        log_dir in broker.log_dirs
        for broker in image.brokers.values()
        if broker.broker_id != request.broker_id
        for log_dir in log_dirs
    )


def amend(known: BrokerRegistration, request: RegisterBrokerRequest) -> Decision:
    """Same incarnation: the epoch and the fenced flag stay; a mere repeat writes nothing."""
    amended = registration_record(request, known.broker_epoch)._replace(
        fenced=known.fenced, in_controlled_shutdown=known.in_controlled_shutdown
    )
    unchanged = amended == replay.registration_record(known)
    response = RegisterBrokerResponse(Error.NONE, known.broker_epoch)
    return Decision(response, () if unchanged else (amended,))


def seats_lost_by_restart(
    view: View, known: BrokerRegistration | None, request: RegisterBrokerRequest
) -> list[PartitionChange]:
    """A new incarnation starts outside of every ISR. After a crash it also leaves the ELR: an
    unsynced tail that it had acknowledged may be gone (KIP-966)."""
    if was_clean_stop(known, request):
        return membership.leave_isrs(view, request.broker_id)
    replaced = known is not None and has_other_disks(known, request)
    return membership.lose_all_seats(view, request.broker_id, disk_replaced=replaced)


def has_other_disks(known: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    """None of its log directories is one that it had: they were formatted since."""
    return bool(known.log_dirs) and set(known.log_dirs).isdisjoint(request.log_dirs)


def was_clean_stop(known: BrokerRegistration | None, request: RegisterBrokerRequest) -> bool:
    """Its log directories carry the mark of exactly the incarnation that we knew last."""
    return (
        known is not None
        and request.previous_broker_epoch != NO_EPOCH
        and request.previous_broker_epoch == known.broker_epoch
    )


def registration_record(request: RegisterBrokerRequest, broker_epoch: int) -> RegisterBroker:
    return RegisterBroker(
        request.broker_id,
        request.incarnation_id,
        broker_epoch,
        tuple(Endpoint(name, host, port) for name, host, port in request.endpoints),
        request.rack,
        log_dirs=request.log_dirs,
    )


def decide_unregistration(view: View, request: UnregisterBrokerRequest) -> Decision:
    """For a broker that will not come back. It loses its seats first, as after a crash."""
    known = view.image.brokers.get(request.broker_id)
    if known is None:
        return Decision(
            AdminResponse(
                Error.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered"
            )
        )
    records: list[MetadataRecord] = list(membership.lose_all_seats(view, known.broker_id))
    records.append(UnregisterBroker(known.broker_id, known.broker_epoch))
    return Decision(AdminResponse(Error.NONE), tuple(records))
