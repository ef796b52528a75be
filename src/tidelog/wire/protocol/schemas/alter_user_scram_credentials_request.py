"""AlterUserScramCredentialsRequest, API 51.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ScramCredentialDeletion(Struct):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)


class ScramCredentialUpsertion(Struct):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)
    iterations: int = field("int32", default=0)
    salt: bytes = field("bytes", default=b"")
    salted_password: bytes = field("bytes", default=b"")


class AlterUserScramCredentialsRequest(Message, key=51, valid="0", flexible="0+"):
    deletions: Sequence[ScramCredentialDeletion] = field([ScramCredentialDeletion], default=())
    upsertions: Sequence[ScramCredentialUpsertion] = field([ScramCredentialUpsertion], default=())
