"""The audit trail of a node as records of a topic: who was refused what, and who changed what.

Requests never wait for it. What does not fit into the queue is dropped, counted and told in the
journal, where every line of the trail is anyway. What could not be written waits for the next try.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable

from tidelog.core.events import AccessDenied, AdministrativeChange
from tidelog.host import tasks
from tidelog.host.findings import Findings
from tidelog.observe.event_topic import EventRecord, Produce
from tidelog.observe.render import Renderer
from tidelog.observe.stream import EventStream, NumberedEvent

AUDIT_TOPIC = "__tidelog_audit"
BATCH_MS = 500
RETRY_MS = 2_000
MOST_WAITING = 10_000
MOST_PER_BATCH = 500
FINDING = "audit-not-written"

_LOGGER = logging.getLogger("tidelog.audit")


class AuditTopic:
    """Collects refusals and changes for half a second and writes them as one batch."""

    __slots__ = (
        "_findings",
        "_is_failing",
        "_produce",
        "_renderer",
        "_stream",
        "_task",
        "_unsubscribe",
        "_waiting",
        "dropped",
        "failures",
        "written",
    )

    def __init__(
        self, stream: EventStream, renderer: Renderer, produce: Produce, findings: Findings
    ) -> None:
        self._stream = stream
        self._renderer = renderer
        self._produce = produce
        self._findings = findings
        self._waiting: deque[NumberedEvent] = deque()
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self.written = 0
        self.dropped = 0
        self.failures = 0

    def start(self) -> None:
        self._unsubscribe = self._stream.subscribe(self.on_event)
        self._task = tasks.begin(self._run())

    async def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._waiting:
            _LOGGER.warning(
                "%d lines of the audit trail are in this journal and not in %s",
                len(self._waiting),
                AUDIT_TOPIC,
            )

    def on_event(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if not isinstance(event, AccessDenied | AdministrativeChange) or self._is_own(event):
            return
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(numbered)
            return
        if self.dropped == 0:
            _LOGGER.warning("%s is behind: lines of the audit trail are left out", AUDIT_TOPIC)
        self.dropped += 1

    def _is_own(self, event: AccessDenied | AdministrativeChange) -> bool:
        """A node that may not write the trail would go on to write about that."""
        about_this = isinstance(event, AccessDenied) and event.resource == f"topic {AUDIT_TOPIC}"
        return about_this and self._is_failing

    async def write_batch(self) -> bool:
        """What waits, as much as one batch holds. After a failure it waits on: False."""
        batch = [self._waiting[index] for index in range(min(len(self._waiting), MOST_PER_BATCH))]
        if not batch:
            return True
        try:
            await self._produce(AUDIT_TOPIC, [self._record(each) for each in batch])
        except Exception as error:  # the border of a task: requests go on whatever happens here
            self.failures += 1
            self._is_failing = True
            text = f"the audit trail is not written to its topic: {error}"
            advice = "it is in the journal; nodes need a leader of the topic and rights to write it"
            self._findings.report(FINDING, AUDIT_TOPIC, text, advice=advice)
            return False
        self._is_failing = False
        self._findings.clear(FINDING, AUDIT_TOPIC)
        self.written += len(batch)
        for _ in batch:
            self._waiting.popleft()
        return True

    async def _run(self) -> None:
        while True:
            await tasks.pause(BATCH_MS if await self.write_batch() else RETRY_MS)

    def _record(self, numbered: NumberedEvent) -> EventRecord:
        """Keyed by who did it."""
        rendered = self._renderer.numbered(self._stream.node_id, numbered)
        rendered["stream"] = self._stream.started_ms
        principal = str(numbered.event[0])
        return EventRecord(principal.encode(), json.dumps(rendered).encode(), numbered.wall_ms)
