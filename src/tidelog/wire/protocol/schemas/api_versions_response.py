"""ApiVersionsResponse, API 18.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ApiVersion(Struct):
    api_key: int = field("int16", default=0)
    min_version: int = field("int16", default=0)
    max_version: int = field("int16", default=0)


class SupportedFeatureKey(Struct):
    name: str = field("string", default="")
    min_version: int = field("int16", default=0)
    max_version: int = field("int16", default=0)


class FinalizedFeatureKey(Struct):
    name: str = field("string", default="")
    max_version_level: int = field("int16", default=0)
    min_version_level: int = field("int16", default=0)


class ApiVersionsResponse(Message, key=18, valid="0-4", flexible="3+"):
    error_code: int = field("int16", default=0)
    api_keys: Sequence[ApiVersion] = field([ApiVersion], default=())
    throttle_time_ms: int = field("int32", "1+", default=0)
    supported_features: Sequence[SupportedFeatureKey] = field(
        [SupportedFeatureKey], "3+", tag=0, default=()
    )
    finalized_features_epoch: int = field("int64", "3+", tag=1, default=-1)
    finalized_features: Sequence[FinalizedFeatureKey] = field(
        [FinalizedFeatureKey], "3+", tag=2, default=()
    )
    migration_ready: bool = field("bool", "3+", tag=3, default=False)
