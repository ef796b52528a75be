"""ApiVersionsRequest, API 18.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class ApiVersionsRequest(Message, key=18, valid="0-4", flexible="3+"):
    client_software_name: str = field("string", "3+", default="")
    client_software_version: str = field("string", "3+", default="")
