"""The keys that sign bearer tokens: read at the start, then regularly, and for unknown keys."""

import asyncio

from tidelog.core.security.protocols import TokenSettings
from tidelog.host import tasks
from tidelog.host.bearer_tokens import TokenKeysError, TokenVerifier
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Workers
from tidelog.host.timers import Timer
from tidelog.node.disks import CannotStart

RETRY_MS = 5_000
LEAST_BETWEEN_MS = 10_000
"""Anybody can name an unknown key in a token: that makes us ask the issuer so often at most."""
FINDING = "token-keys-unreadable"


class TokenKeys:
    """For one listener."""

    __slots__ = ("_asked_at_ms", "_host", "_listener", "_refresh_ms", "_task", "_wake", "verifier")

    def __init__(self, settings: TokenSettings, listener: str, host: NodeHost) -> None:
        try:
            self.verifier = TokenVerifier(settings, host.clock.wall_ms, host.fetch)
        except TokenKeysError as reason:
            raise CannotStart(f"logins of {listener}: {reason}", advice=str(reason)) from None
        self.verifier.on_unknown_key = self._ask_early
        self._host = host
        self._listener = listener
        self._refresh_ms = settings.refresh_ms
        self._asked_at_ms = 0
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, workers: Workers) -> None:
        self._task = tasks.begin(self._keep_reading(workers))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _keep_reading(self, workers: Workers) -> None:
        findings = self._host.findings
        while True:
            self._asked_at_ms = self._host.now_ms()
            try:
                self.verifier.adopt(await workers.run(self.verifier.read))
            except TokenKeysError as reason:
                text = f"tokens are verified with the keys that were read before: {reason}"
                advice = "sasl.oauthbearer.jwks.endpoint.url, and what is there"
                findings.report(FINDING, self._listener, text, advice=advice)
                await self._wait(RETRY_MS)
            else:
                findings.clear(FINDING, self._listener)
                await self._wait(self._refresh_ms)

    async def _wait(self, delay_ms: int) -> None:
        """That long, or until somebody shows a key that we do not know."""
        self._wake = tasks.promise()
        timer: Timer = self._host.timers.after(delay_ms, self._end_wait)
        try:
            await self._wake
        finally:
            timer.cancel()

    def _end_wait(self) -> None:
        if self._wake is not None:
            tasks.fulfil(self._wake)

    def _ask_early(self) -> None:
        if self._host.now_ms() - self._asked_at_ms >= LEAST_BETWEEN_MS:
            self._end_wait()
