"""AlterReplicaLogDirsRequest, API 34.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class AlterReplicaLogDir(Struct):
    path: str = field("string", default="")
    topics: Sequence[AlterReplicaLogDirTopic] = field([AlterReplicaLogDirTopic], default=())


class AlterReplicaLogDirsRequest(Message, key=34, valid="1-2", flexible="2+"):
    dirs: Sequence[AlterReplicaLogDir] = field([AlterReplicaLogDir], default=())
