"""DescribeUserScramCredentialsRequest, API 50.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class UserName(Struct):
    name: str = field("string", default="")


class DescribeUserScramCredentialsRequest(Message, key=50, valid="0", flexible="0+"):
    users: Sequence[UserName] | None = field([UserName], nullable="0+", default=())
