"""What every decision of the controller reads and returns.

A decision reads the current image (committed and pending records), changes nothing, and
says which records would carry it out and what to answer once they are committed.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.image import BrokerRegistration, MetadataImage
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.requests import (
    AdminResponse,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerRequest,
    ControllerResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)


class View(NamedTuple):
    """What a decision may look at."""

    image: MetadataImage
    settings: ControllerSettings


class Decision(NamedTuple):
    response: ControllerResponse
    records: tuple[MetadataRecord, ...] = ()


def refuse(request: ControllerRequest, error: Error) -> ControllerResponse:
    """The answer to a request that was not carried out at all."""
    if isinstance(request, HeartbeatRequest):
        return HeartbeatResponse(error)
    if isinstance(request, AlterPartitionRequest):
        return AlterPartitionResponse(error)
    if isinstance(request, RegisterBrokerRequest):
        return RegisterBrokerResponse(error)
    if isinstance(request, CreateTopicRequest):
        return CreateTopicResponse(error)
    if isinstance(request, ElectLeadersRequest):
        return ElectLeadersResponse(error)
    if isinstance(request, AllocateProducerIdsRequest):
        return AllocateProducerIdsResponse(error)
    if isinstance(request, DeleteAclsRequest):
        return DeleteAclsResponse(error)
    return AdminResponse(error)


def sender(image: MetadataImage, broker: int, broker_epoch: int) -> BrokerRegistration | None:
    """The registration a broker speaks for. None: another incarnation has taken its place, or
    it was never registered, and whatever it asks changes nothing (kraft.md §12 rule 13)."""
    registration = image.brokers.get(broker)
    if registration is None or registration.broker_epoch != broker_epoch:
        return None
    return registration
