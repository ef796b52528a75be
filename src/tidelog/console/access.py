"""What the one who asks may see and do, as the cluster itself says it."""

import time
from typing import NamedTuple

from tidelog.client import Client, KafkaError
from tidelog.client.errors import check
from tidelog.core.security.acls import Operation
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import DescribeClusterResponse

REMEMBERED_SECONDS = 3.0


class Rights(NamedTuple):
    """On the cluster."""

    may_describe: bool
    may_alter: bool
    may_create: bool


class Access:
    """Of one session; asked again every few seconds, because ACLs change."""

    __slots__ = ("_asked", "_rights", "_topics", "_topics_due", "is_unlimited")

    def __init__(self, *, is_unlimited: bool) -> None:
        self.is_unlimited = is_unlimited
        """Nobody logs in here, so everybody may see everything."""
        self._rights = Rights(is_unlimited, is_unlimited, is_unlimited)
        self._asked = 0.0
        self._topics: frozenset[str] = frozenset()
        self._topics_due = 0.0

    async def rights(self, client: Client) -> Rights:
        now = time.monotonic()
        if not self.is_unlimited and now - self._asked > REMEMBERED_SECONDS:
            self._rights = await ask_rights(client)
            self._asked = now
        return self._rights

    async def refresh(self, client: Client) -> None:
        """Which topics can be seen."""
        begin = time.monotonic()
        if self.is_unlimited or begin < self._topics_due:
            return
        self._topics = frozenset((await client.view()).topics)
        took = time.monotonic() - begin  # with thousands of topics it is asked less often
        self._topics_due = begin + max(REMEMBERED_SECONDS, 20 * took)

    def sees(self, topic: str) -> bool:
        return self.is_unlimited or topic in self._topics


async def ask_rights(client: Client) -> Rights:
    """From the operations that a cluster says are allowed; all, where nobody checks."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        answer = await client.ask_any(request, DescribeClusterResponse)
        check(answer.error_code, answer.error_message)
    except KafkaError:
        return Rights(may_describe=False, may_alter=False, may_create=False)
    allowed = answer.cluster_authorized_operations

    def may(*operations: Operation) -> bool:
        return any(allowed >> operation & 1 for operation in operations)

    return Rights(
        may(Operation.DESCRIBE, Operation.ALTER),
        may(Operation.ALTER, Operation.CLUSTER_ACTION),
        may(Operation.CREATE, Operation.ALTER),
    )
