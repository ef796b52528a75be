"""DescribeUserScramCredentialsResponse, API 50.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class CredentialInfo(Struct):
    mechanism: int = field("int8", default=0)
    iterations: int = field("int32", default=0)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    credential_infos: Sequence[CredentialInfo] = field([CredentialInfo], default=())


class DescribeUserScramCredentialsResponse(Message, key=50, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    results: Sequence[DescribeUserScramCredentialsResult] = field(
        [DescribeUserScramCredentialsResult], default=()
    )
