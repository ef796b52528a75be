"""DescribeLogDirsResponse, API 35.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DescribeLogDirsPartition(Struct):
    partition_index: int = field("int32", default=0)
    partition_size: int = field("int64", default=0)
    offset_lag: int = field("int64", default=0)
    is_future_key: bool = field("bool", default=False)


class DescribeLogDirsTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[DescribeLogDirsPartition] = field([DescribeLogDirsPartition], default=())


class DescribeLogDirsResult(Struct):
    error_code: int = field("int16", default=0)
    log_dir: str = field("string", default="")
    topics: Sequence[DescribeLogDirsTopic] = field([DescribeLogDirsTopic], default=())
    total_bytes: int = field("int64", "4+", default=-1)
    usable_bytes: int = field("int64", "4+", default=-1)
    is_cordoned: bool = field("bool", "5+", default=False)


class DescribeLogDirsResponse(Message, key=35, valid="1-5", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", "3+", default=0)
    results: Sequence[DescribeLogDirsResult] = field([DescribeLogDirsResult], default=())
