"""UpdateFeaturesRequest, API 57.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class FeatureUpdateKey(Struct):
    feature: str = field("string", default="")
    max_version_level: int = field("int16", default=0)
    upgrade_type: int = field("int8", "1+", default=1)
    allow_downgrade: bool = field("bool", "0-0", default=False)


class UpdateFeaturesRequest(Message, key=57, valid="0-2", flexible="0+"):
    timeout_ms: int = field("int32", default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = field([FeatureUpdateKey], default=())
    validate_only: bool = field("bool", "1+", default=False)
