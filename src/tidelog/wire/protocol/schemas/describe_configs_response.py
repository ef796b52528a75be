"""DescribeConfigsResponse, API 32.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DescribeConfigsSynonym(Struct):
    name: str = field("string", default="")
    value: str | None = field("string", nullable="0+", default=None)
    source: int = field("int8", default=0)


class DescribeConfigsResourceResult(Struct):
    name: str = field("string", default="")
    value: str | None = field("string", nullable="0+", default=None)
    read_only: bool = field("bool", default=False)
    config_source: int = field("int8", default=-1)
    is_sensitive: bool = field("bool", default=False)
    synonyms: Sequence[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], default=())
    config_type: int = field("int8", "3+", default=0)
    documentation: str | None = field("string", "3+", nullable="0+", default=None)


class DescribeConfigsResult(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configs: Sequence[DescribeConfigsResourceResult] = field(
        [DescribeConfigsResourceResult], default=()
    )


class DescribeConfigsResponse(Message, key=32, valid="1-4", flexible="4+"):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[DescribeConfigsResult] = field([DescribeConfigsResult], default=())
