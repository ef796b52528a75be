"""AlterPartitionRequest, API 56.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class BrokerState(Struct):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    new_isr_with_epochs: Sequence[BrokerState] = field([BrokerState], "3+", default=())
    new_isr: Sequence[int] = field(["int32"], "2-2", default=())
    leader_recovery_state: int = field("int8", default=0)
    partition_epoch: int = field("int32", default=0)


class TopicData(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class AlterPartitionRequest(Message, key=56, valid="2-3", flexible="2+"):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    topics: Sequence[TopicData] = field([TopicData], default=())
