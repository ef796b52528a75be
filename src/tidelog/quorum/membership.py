"""Where a node stands in the metadata quorum."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.state import QuorumSettings

Address = tuple[str, int]

STATIC_DIRECTORY_ID = bytes(16)
"""Voters named in the configuration have no directory id, as in Kafka's static quorum."""

CONTROLLER_LISTENER = "CONTROLLER"

SNAPSHOT_EVERY_RECORDS = 20_000


class QuorumMembership(NamedTuple):
    node_id: int
    directory_id: bytes
    cluster_id: str
    voters: Mapping[int, Address]
    """Node id → where its controller listener is. A node that is not among them observes."""
    settings: QuorumSettings
    snapshot_every_records: int = SNAPSHOT_EVERY_RECORDS
    listener_name: str = CONTROLLER_LISTENER
    voters_are_recorded: bool = False
    """In the log, with the directories they vote from: so Kafka keeps a dynamic quorum."""

    @property
    def key(self) -> VoterKey:
        is_static = self.node_id in self.voters and not self.voters_are_recorded
        return VoterKey(self.node_id, STATIC_DIRECTORY_ID if is_static else self.directory_id)

    @property
    def voter_keys(self) -> tuple[VoterKey, ...]:
        return tuple(VoterKey(node_id, STATIC_DIRECTORY_ID) for node_id in sorted(self.voters))
