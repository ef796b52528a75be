"""DeleteRecordsRequest, API 21.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DeleteRecordsPartition(Struct):
    partition_index: int = field("int32", default=0)
    offset: int = field("int64", default=0)


class DeleteRecordsTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[DeleteRecordsPartition] = field([DeleteRecordsPartition], default=())


class DeleteRecordsRequest(Message, key=21, valid="0-2", flexible="2+"):
    topics: Sequence[DeleteRecordsTopic] = field([DeleteRecordsTopic], default=())
    timeout_ms: int = field("int32", default=0)
