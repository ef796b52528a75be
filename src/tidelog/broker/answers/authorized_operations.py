"""What a client may do, as the bits of Kafka's operations. Without access rules: everything."""

from tidelog.core.security.acls import ResourceType
from tidelog.core.security.authorizer import POSSIBLE

NOT_ASKED = -(2**31)
"""The client did not want to know."""


def _bits(resource_type: ResourceType) -> int:
    return sum(1 << operation for operation in POSSIBLE[resource_type])


ON_TOPIC = _bits(ResourceType.TOPIC)
ON_GROUP = _bits(ResourceType.GROUP)
ON_CLUSTER = _bits(ResourceType.CLUSTER)


def on_topic(*, asked: bool) -> int:
    return ON_TOPIC if asked else NOT_ASKED


def on_group(*, asked: bool) -> int:
    return ON_GROUP if asked else NOT_ASKED


def on_cluster(*, asked: bool) -> int:
    return ON_CLUSTER if asked else NOT_ASKED
