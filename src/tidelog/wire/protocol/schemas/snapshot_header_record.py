"""SnapshotHeaderRecord.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class SnapshotHeaderRecord(Message, key=-1, valid="0", flexible="0+"):
    version: int = field("int16", default=0)
    last_contained_log_timestamp: int = field("int64", default=0)
