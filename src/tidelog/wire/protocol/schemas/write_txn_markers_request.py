"""WriteTxnMarkersRequest, API 27.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


class WritableTxnMarker(Struct):
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    transaction_result: bool = field("bool", default=False)
    topics: Sequence[WritableTxnMarkerTopic] = field([WritableTxnMarkerTopic], default=())
    coordinator_epoch: int = field("int32", default=0)
    transaction_version: int = field("int8", "2+", default=0)


class WriteTxnMarkersRequest(Message, key=27, valid="1-2", flexible="1+"):
    markers: Sequence[WritableTxnMarker] = field([WritableTxnMarker], default=())
