"""Which APIs there are, in which versions, and who may ask for them (wire.md §3.2).

`first` is what a first release offers: with exactly this set six clients worked. `full` is
the end state. A range says what is advertised; Produce 0 to 2 are advertised and refused,
because old librdkafka takes a higher minimum for a broker that cannot decompress.
"""

from collections.abc import Collection
from enum import Enum
from functools import cache
from importlib import import_module
from typing import NamedTuple

from tidelog.wire.protocol.errors import UnsupportedVersion
from tidelog.wire.protocol.message import NO_VERSIONS, VERSION_MAX, Message, Versions, versions
from tidelog.wire.protocol.schemas import REQUESTS, RESPONSES

API_VERSIONS = 18
NEVER_FLEXIBLE = VERSION_MAX


class Listener(Enum):
    CLIENT = "client"
    CLUSTER = "cluster"  # brokers and controllers among themselves


class Release(Enum):
    FIRST = "first"
    FULL = "full"


class Api(NamedTuple):
    key: int
    name: str
    first: Versions
    full: Versions
    flexible_from: int
    for_clients: bool = True
    for_cluster: bool = False

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


class ApiRange(NamedTuple):
    key: int
    first: int
    last: int


def _client(key: int, name: str, first: str, full: str, flexible_from: int) -> Api:
    return Api(key, name, versions(first), versions(full), flexible_from)


def _cluster(
    key: int, name: str, full: str, flexible_from: int, *, for_clients: bool = False
) -> Api:
    return Api(key, name, NO_VERSIONS, versions(full), flexible_from, for_clients, True)


APIS: tuple[Api, ...] = (
    _client(0, "Produce", "0-11", "0-13", 9),
    _client(1, "Fetch", "4-17", "4-18", 12),
    _client(2, "ListOffsets", "1-9", "1-11", 6),
    _client(3, "Metadata", "0-12", "0-13", 9),
    _client(8, "OffsetCommit", "2-9", "2-10", 8),
    _client(9, "OffsetFetch", "1-9", "1-10", 6),
    _client(10, "FindCoordinator", "0-6", "0-6", 3),
    _client(11, "JoinGroup", "0-9", "0-9", 6),
    _client(12, "Heartbeat", "0-4", "0-4", 4),
    _client(13, "LeaveGroup", "0-5", "0-5", 4),
    _client(14, "SyncGroup", "0-5", "0-5", 4),
    _client(15, "DescribeGroups", "0-6", "0-6", 5),
    _client(16, "ListGroups", "0-5", "0-5", 3),
    _client(17, "SaslHandshake", "0-1", "0-1", NEVER_FLEXIBLE),
    _client(18, "ApiVersions", "0-4", "0-4", 3),
    _client(19, "CreateTopics", "2-7", "2-7", 5),
    _client(20, "DeleteTopics", "1-6", "1-6", 4),
    _client(21, "DeleteRecords", "0-2", "0-2", 2),
    _client(22, "InitProducerId", "0-5", "0-5", 2),
    _client(23, "OffsetForLeaderEpoch", "2-4", "2-4", 4),
    _client(24, "AddPartitionsToTxn", "0-3", "0-5", 3),
    _client(25, "AddOffsetsToTxn", "0-4", "0-4", 3),
    _client(26, "EndTxn", "0-4", "0-5", 3),
    _cluster(27, "WriteTxnMarkers", "1-2", 1, for_clients=True),
    _client(28, "TxnOffsetCommit", "0-4", "0-5", 3),
    _client(29, "DescribeAcls", "1-3", "1-3", 2),
    _client(30, "CreateAcls", "1-3", "1-3", 2),
    _client(31, "DeleteAcls", "1-3", "1-3", 2),
    _client(32, "DescribeConfigs", "1-4", "1-4", 4),
    _client(33, "AlterConfigs", "0-2", "0-2", 2),
    _client(34, "AlterReplicaLogDirs", "", "1-2", 2),
    _client(35, "DescribeLogDirs", "1-5", "1-5", 2),
    _client(36, "SaslAuthenticate", "0-2", "0-2", 2),
    _client(37, "CreatePartitions", "0-3", "0-3", 2),
    _client(42, "DeleteGroups", "0-2", "0-2", 2),
    _client(43, "ElectLeaders", "0-2", "0-2", 2),
    _client(44, "IncrementalAlterConfigs", "0-1", "0-1", 1),
    _client(45, "AlterPartitionReassignments", "0-1", "0-1", 0),
    _client(46, "ListPartitionReassignments", "0", "0", 0),
    _client(47, "OffsetDelete", "0", "0", NEVER_FLEXIBLE),
    _client(48, "DescribeClientQuotas", "0-1", "0-1", 1),
    _client(49, "AlterClientQuotas", "0-1", "0-1", 1),
    _client(50, "DescribeUserScramCredentials", "0", "0", 0),
    _client(51, "AlterUserScramCredentials", "0", "0", 0),
    _cluster(52, "Vote", "0-2", 0),
    _cluster(53, "BeginQuorumEpoch", "0-1", 1),
    _cluster(54, "EndQuorumEpoch", "0-1", 1),
    _client(55, "DescribeQuorum", "0-2", "0-2", 0),
    _cluster(56, "AlterPartition", "2-3", 0),
    _client(57, "UpdateFeatures", "0-2", "0-2", 0),
    _cluster(58, "Envelope", "0", 0),
    _cluster(59, "FetchSnapshot", "0-1", 0),
    _client(60, "DescribeCluster", "0-2", "0-2", 0),
    _client(61, "DescribeProducers", "0", "0", 0),
    _cluster(62, "BrokerRegistration", "0-4", 0),
    _cluster(63, "BrokerHeartbeat", "0-2", 0),
    _cluster(64, "UnregisterBroker", "0", 0, for_clients=True),
    _client(65, "DescribeTransactions", "0", "0", 0),
    _client(66, "ListTransactions", "0-2", "0-2", 0),
    _cluster(67, "AllocateProducerIds", "0", 0),
    _client(68, "ConsumerGroupHeartbeat", "", "0-1", 0),
    _client(69, "ConsumerGroupDescribe", "", "0-1", 0),
    _cluster(70, "ControllerRegistration", "0", 0),
    _cluster(73, "AssignReplicasToDirs", "0", 0),
    _client(74, "ListConfigResources", "", "0-1", 0),
    _client(75, "DescribeTopicPartitions", "", "0", 0),
    _cluster(80, "AddRaftVoter", "0-1", 0, for_clients=True),
    _cluster(81, "RemoveRaftVoter", "0", 0, for_clients=True),
    _cluster(82, "UpdateRaftVoter", "0", 0),
)
API_BY_KEY: dict[int, Api] = {api.key: api for api in APIS}


def supported_versions(
    listener: Listener = Listener.CLIENT,
    release: Release = Release.FIRST,
    implemented: Collection[int] | None = None,
) -> list[ApiRange]:
    """What ApiVersions advertises; `implemented` leaves out every key it does not have.

    Clients take an API that is advertised for one that works, so nothing is advertised
    before it is there.
    """
    return list(_ranges(listener, release, None if implemented is None else frozenset(implemented)))


@cache
def _ranges(
    listener: Listener, release: Release, implemented: frozenset[int] | None
) -> tuple[ApiRange, ...]:
    """Worked out once: every new connection asks, and the answer of a listener never changes."""
    return tuple(
        ApiRange(api.key, served.first, served.last)
        for api in APIS
        if implemented is None or api.key in implemented
        if (served := offered(api, listener, release)).last >= served.first
    )


def offered(api: Api, listener: Listener, release: Release) -> Versions:
    """The versions a listener advertises. We are both ends of a cluster listener, so what
    only the cluster uses is always there in full."""
    if listener is Listener.CLUSTER and api.for_cluster:
        return api.full
    if listener is Listener.CLIENT and not api.for_clients:
        return NO_VERSIONS
    return api.first if release is Release.FIRST else api.full


@cache
def request_class(key: int) -> type[Message]:
    """The class of an API's requests; its module is imported when it is first asked for."""
    return _message(REQUESTS, key, "Request")


@cache
def response_class(key: int) -> type[Message]:
    """The class of an API's responses."""
    return _message(RESPONSES, key, "Response")


def _message(modules: dict[int, str], key: int, suffix: str) -> type[Message]:
    module = modules.get(key)
    if module is None:
        raise UnsupportedVersion(f"API {key} is unknown")
    message: type[Message] = getattr(import_module(module), API_BY_KEY[key].name + suffix)
    return message
