"""DescribeClusterResponse, API 60.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DescribeClusterBroker(Struct):
    broker_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", nullable="0+", default=None)
    is_fenced: bool = field("bool", "2+", default=False)


class DescribeClusterResponse(Message, key=60, valid="0-2", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    endpoint_type: int = field("int8", "1+", default=1)
    cluster_id: str = field("string", default="")
    controller_id: int = field("int32", default=-1)
    brokers: Sequence[DescribeClusterBroker] = field([DescribeClusterBroker], default=())
    cluster_authorized_operations: int = field("int32", default=-2147483648)
