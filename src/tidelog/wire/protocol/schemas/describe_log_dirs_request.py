"""DescribeLogDirsRequest, API 35.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DescribableLogDirTopic(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class DescribeLogDirsRequest(Message, key=35, valid="1-5", flexible="2+"):
    topics: Sequence[DescribableLogDirTopic] | None = field(
        [DescribableLogDirTopic], nullable="0+", default=()
    )
