"""DescribeTransactionsRequest, API 65.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class DescribeTransactionsRequest(Message, key=65, valid="0", flexible="0+"):
    transactional_ids: Sequence[str] = field(["string"], default=())
