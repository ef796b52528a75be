"""How far a pipeline is, as the offsets of a consumer group: `tidelog group describe`, Kafka's own
tools and lag exporters then show it like any other reader.

Spark tells its sources of a batch only when the next one is planned, so a source that commits
(`commitOffsets`) is a batch behind for as long as nothing comes in. The process that runs the
pipeline knows each batch when it is done, and commits then. The checkpoint stays the truth: what
cannot be committed is told, and the pipeline goes on.
"""

import time
from collections.abc import Callable

from tidelog.client import ClientError
from tidelog.client.groups import GroupAdmin
from tidelog.spark.client_settings import client_settings
from tidelog.spark.connection import connect
from tidelog.spark.ranges import Offsets
from tidelog.spark.security_options import Access
from tidelog.spark.source_options import PREFIX

TRY_MS = 5_000
AGAIN_AFTER_S = 15.0


def usual_group(name: str) -> str:
    """The one that the source's `sourceId` of a pipeline names, too."""
    return f"{PREFIX}-pipeline-{name}"


class LagGroup:
    """The group of one pipeline, through a client of its own."""

    def __init__(
        self,
        access: Access,
        group: str,
        complain: Callable[[str], None],
        *,
        try_ms: int = TRY_MS,
    ) -> None:
        self.group = group
        self._access = access
        self._complain = complain
        self._try_ms = try_ms
        self._pending: Offsets = {}
        self._complaint: str | None = None
        self._not_before_s = 0.0

    def committed(self, offsets: Offsets) -> None:
        """A batch ended there."""
        if offsets:
            self._pending = dict(offsets)
            self.retry()

    def retry(self) -> None:
        """What could not be committed before, if there is anything and it is time."""
        if self._pending and time.monotonic() >= self._not_before_s:
            self._try()

    def finish(self) -> None:
        """The last chance."""
        if self._pending:
            self._try()

    def _try(self) -> None:
        settings = client_settings(self._access.security.properties, for_sink=False)
        connection = connect(self._access.bootstrap, settings, self._try_ms)
        try:
            connection.run(GroupAdmin(connection.client).move(self.group, self._pending))
        except ClientError as error:
            self._not_before_s = time.monotonic() + AGAIN_AFTER_S
            words = " ".join(str(error).split())
            if words != self._complaint:
                self._complain(f"lag tools do not see it, group {self.group} is refused: {words}")
            self._complaint = words
            return
        self._pending = {}
        self._complaint = None
