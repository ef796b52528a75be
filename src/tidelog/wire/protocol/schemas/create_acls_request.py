"""CreateAclsRequest, API 30.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AclCreation(Struct):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    resource_pattern_type: int = field("int8", default=3)
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


class CreateAclsRequest(Message, key=30, valid="1-3", flexible="2+"):
    creations: Sequence[AclCreation] = field([AclCreation], default=())
