"""DescribeClusterRequest, API 60.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class DescribeClusterRequest(Message, key=60, valid="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = field("bool", default=False)
    endpoint_type: int = field("int8", "1+", default=1)
    include_fenced_brokers: bool = field("bool", "2+", default=False)
