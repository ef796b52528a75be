"""AlterUserScramCredentialsResponse, API 51.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AlterUserScramCredentialsResult(Struct):
    user: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)


class AlterUserScramCredentialsResponse(Message, key=51, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AlterUserScramCredentialsResult] = field(
        [AlterUserScramCredentialsResult], default=()
    )
