"""CreatePartitionsRequest, API 37.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: Sequence[int] = field(["int32"], default=())


class CreatePartitionsTopic(Struct):
    name: str = field("string", default="")
    count: int = field("int32", default=0)
    assignments: Sequence[CreatePartitionsAssignment] | None = field(
        [CreatePartitionsAssignment], nullable="0+", default=()
    )


class CreatePartitionsRequest(Message, key=37, valid="0-3", flexible="2+"):
    topics: Sequence[CreatePartitionsTopic] = field([CreatePartitionsTopic], default=())
    timeout_ms: int = field("int32", default=0)
    validate_only: bool = field("bool", default=False)
