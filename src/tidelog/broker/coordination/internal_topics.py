"""Topics that belong to the cluster and not to its users, and how they are created.

The first client that looks for a coordinator makes the topic that coordinators live on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.config.coordination import Coordinating

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = frozenset(
    (
        CONSUMER_OFFSETS,
        TRANSACTION_STATE,
        "__cluster_metadata",
        "__tidelog_audit",
        "__tidelog_events",
        "__tidelog_mirror_offsets",
        "__tidelog_spark_sinks",
    )
)
"""Clients leave these out when they take all topics (Spark does), and nobody gets one by asking
for its metadata: whoever owns it creates it, with the settings it needs."""

CREATE_TOPICS_VERSION = 7


class InternalTopics:
    """Creates the topics of coordinators, one request at a time for each."""

    __slots__ = ("_creating", "_link", "_metadata", "_settings")

    def __init__(
        self, metadata: LocalMetadata, link: ControllerLink, settings: Coordinating
    ) -> None:
        self._metadata = metadata
        self._link = link
        self._settings = settings
        self._creating: set[str] = set()

    async def create(self, topic: str, timeout_ms: int) -> str | None:
        """Ask the controller for it, unless somebody does already. Why it refused, if it did;
        whoever needs the topic waits for the metadata anyway."""
        if topic in self._creating:
            return None
        self._creating.add(topic)
        request = creation_of(topic, self._settings, len(self._metadata.image.brokers), timeout_ms)
        try:
            response = await self._link.forward(request, CREATE_TOPICS_VERSION, timeout_ms)
        except NetworkError as error:
            return f"{topic} cannot be created: {error}"
        finally:
            self._creating.discard(topic)
        assert isinstance(response, CreateTopicsResponse), response
        for result in response.topics:
            if result.error_code not in (Error.NONE, Error.TOPIC_ALREADY_EXISTS):
                reason = result.error_message or Error(result.error_code).name
                return f"{topic} cannot be created: {reason}"
        return None


def creation_of(
    topic: str, given: Coordinating, brokers: int, timeout_ms: int
) -> CreateTopicsRequest:
    """Brokers that are down count as replicas to be: a cluster that is asked for the first time
    while one of them restarts must not live with fewer ever after."""
    wanted = given.offsets_topic if topic == CONSUMER_OFFSETS else given.transactions_topic
    replication_factor = min(wanted.replication_factor, max(1, brokers))
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(wanted.segment_bytes),
    }
    if wanted.min_isr is not None:
        configs["min.insync.replicas"] = str(min(wanted.min_isr, replication_factor))
        configs["unclean.leader.election.enable"] = "false"
    creatable = CreatableTopic(
        name=topic,
        num_partitions=wanted.partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    return CreateTopicsRequest(topics=[creatable], timeout_ms=timeout_ms)
