"""Every message there is, for tests that go through all of them."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.wire.protocol import APIS, Message, request_class, response_class
from tidelog.wire.protocol.metadata_schemas import RECORDS
from tidelog.wire.protocol.schemas.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.protocol.schemas.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tidelog.wire.protocol.schemas.kraft_version_record import KRaftVersionRecord
from tidelog.wire.protocol.schemas.leader_change_message import LeaderChangeMessage
from tidelog.wire.protocol.schemas.snapshot_footer_record import SnapshotFooterRecord
from tidelog.wire.protocol.schemas.snapshot_header_record import SnapshotHeaderRecord
from tidelog.wire.protocol.schemas.voters_record import VotersRecord

# kio's name → our class, for what is neither request nor response.
DATA: dict[str, type[Message]] = {
    "leader_change_message": LeaderChangeMessage,
    "snapshot_header_record": SnapshotHeaderRecord,
    "snapshot_footer_record": SnapshotFooterRecord,
    "k_raft_version_record": KRaftVersionRecord,
    "voters_record": VotersRecord,
    "consumer_protocol_subscription": ConsumerProtocolSubscription,
    "consumer_protocol_assignment": ConsumerProtocolAssignment,
}
REQUESTS = [request_class(api.key) for api in APIS]
RESPONSES = [response_class(api.key) for api in APIS]
EVERY_MESSAGE: list[type[Message]] = [*REQUESTS, *RESPONSES, *DATA.values(), *RECORDS]


class Exchange(NamedTuple):
    """One direction of an API in one version."""

    key: int
    direction: str
    message: type[Message]
    version: int


def versions_of(message: type[Message]) -> range:
    return range(message.__versions__.first, message.__versions__.last + 1)


def every_exchange() -> Iterator[Exchange]:
    for api, request, response in zip(APIS, REQUESTS, RESPONSES, strict=True):
        for version in versions_of(request):
            yield Exchange(api.key, "request", request, version)
        for version in versions_of(response):
            yield Exchange(api.key, "response", response, version)
