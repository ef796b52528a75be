"""The audit trail of refusals: logged once, then summed up, so that nobody can flood it."""

from collections.abc import Callable

from tidelog.core.events import AccessDenied, Event
from tidelog.core.security.acls import Operation, ResourceType
from tidelog.rpc.authorization.gate import Refusal

REPEATED_MS = 10_000
"""The same refusal is told again after this time, with how often it happened meanwhile."""
REMEMBERED_MAX = 1_000


class Refusals:
    """Hears of every refusal of a node."""

    __slots__ = ("_emit", "_now_ms", "_told", "total")

    def __init__(self, emit: Callable[[Event], None], now_ms: Callable[[], int]) -> None:
        self._emit = emit
        self._now_ms = now_ms
        self._told: dict[Refusal, tuple[int, int]] = {}
        """When it was last told, and how often it happened since."""
        self.total = 0

    def on_refused(self, refusal: Refusal) -> None:
        self.total += 1
        now_ms = self._now_ms()
        told_ms, times = self._told.get(refusal, (now_ms - REPEATED_MS, 0))
        if now_ms - told_ms < REPEATED_MS:
            self._told[refusal] = (told_ms, times + 1)
            return
        if refusal not in self._told and len(self._told) >= REMEMBERED_MAX:
            self._told.clear()
        self._told[refusal] = (now_ms, 0)
        caller, kind = refusal.caller, ResourceType(refusal.resource_type).name
        self._emit(
            AccessDenied(
                str(caller.principal),
                caller.host,
                refusal.api,
                Operation(refusal.operation).name,
                f"{kind.lower()} {refusal.name}",
                times + 1,
            )
        )
