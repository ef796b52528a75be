"""FetchResponse, API 1.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Buffer, Message, Struct, field


class EpochEndOffset(Struct):
    epoch: int = field("int32", default=-1)
    end_offset: int = field("int64", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=-1)


class SnapshotId(Struct):
    end_offset: int = field("int64", default=-1)
    epoch: int = field("int32", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field("int64", default=0)
    first_offset: int = field("int64", default=0)


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    high_watermark: int = field("int64", default=0)
    last_stable_offset: int = field("int64", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2, default=None)
    aborted_transactions: Sequence[AbortedTransaction] | None = field(
        [AbortedTransaction], nullable="0+", default=()
    )
    preferred_read_replica: int = field("int32", "11+", default=-1)
    records: Buffer | None = field("records", nullable="0+", default=None)


class FetchableTopicResponse(Struct):
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    topic: str = field("string", "4-12", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class NodeEndpoint(Struct):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", nullable="0+", default=None)


class FetchResponse(Message, key=1, valid="4-18", flexible="12+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", "7+", default=0)
    session_id: int = field("int32", "7+", default=0)
    responses: Sequence[FetchableTopicResponse] = field([FetchableTopicResponse], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], "16+", tag=0, default=())
