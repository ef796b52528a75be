"""How a node's connections are secured, from its settings: listeners and outgoing connections.

Certificates are files that are renewed while the node runs: they are looked at every few seconds,
on a thread, and read again when they have changed. A file that cannot be used changes nothing, and
is a finding until it can.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tidelog.config.broker_keys import LISTENER_PREFIX
from tidelog.config.node_config import NodeConfig
from tidelog.config.security import HTTP
from tidelog.core.security.protocols import (
    PLAINTEXT,
    ListenerSecurity,
    PeerSecurity,
    SaslSettings,
)
from tidelog.core.security.sasl import FindCredential, VerifyToken
from tidelog.core.security.tls_settings import TlsSettings
from tidelog.host import tasks
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Network, Workers
from tidelog.host.timers import pause
from tidelog.host.tls import TlsError, TlsSource
from tidelog.node.disks import CannotStart
from tidelog.node.token_keys import TokenKeys
from tidelog.rpc.logins import Logins
from tidelog.rpc.mechanisms import credentials_of, offered
from tidelog.rpc.secured_network import SecuredNetwork
from tidelog.rpc.server import NO_AUTHENTICATION, PeerAuthentication

LOOK_EVERY_MS = 5_000
EXPIRES_SOON_MS = 30 * 24 * 3_600_000
LIVE_PATHS = ("ssl.keystore.location", "ssl.truststore.location")
"""What IncrementalAlterConfigs may change."""
EXPIRES_FINDING, UNREADABLE_FINDING = "certificate-expires", "certificate-unreadable"
TO_BROKERS, TO_CONTROLLERS = "connections to brokers", "connections to controllers"

_LOGGER = logging.getLogger("tidelog.node")


class NodeSecurity:
    """Made first: what cannot be secured must not start."""

    __slots__ = (
        "_host",
        "_listeners",
        "_live",
        "_logins",
        "_of_others",
        "_sources",
        "_task",
        "_token_keys",
        "_workers",
    )

    def __init__(
        self,
        config: NodeConfig,
        host: NodeHost,
        find: FindCredential,
        live: Callable[[], Mapping[str, str]],
    ) -> None:
        """`live` has the settings of this broker that were altered while it runs."""
        self._host = host
        self._live = live
        self._of_others = {TO_BROKERS: config.inter_broker_listener}
        """Whose settings count for connections to others."""
        for listener in config.controller_listeners[:1]:
            self._of_others[TO_CONTROLLERS] = listener
        self._listeners: Mapping[str, ListenerSecurity] = config.security.listeners
        self._sources: dict[str, TlsSource] = {}
        """By the name of the listener, or by what the connections are for."""
        self._workers: Workers | None = None
        self._task: asyncio.Task[None] | None = None
        for name, security in self._listeners.items():
            if security.tls is not None:
                self._sources[name] = _source(security.tls, name, server_side=True)
        http = config.security.http
        if http.tls is not None:
            self._sources[HTTP] = _source(http.tls, HTTP, server_side=True)
        self._token_keys: dict[str, TokenKeys] = {}
        if http.tokens is not None:
            self._token_keys[HTTP] = TokenKeys(http.tokens, HTTP, host)
        self._logins = {
            name: self._logins_of(name, each.sasl, find)
            for name, each in self._listeners.items()
            if each.sasl is not None
        }
        name = f"node-{config.node_id}"
        host.to_brokers = self._way(config.security.to_brokers, TO_BROKERS, name)
        host.to_controllers = self._way(config.security.to_controllers, TO_CONTROLLERS, name)

    def _logins_of(self, listener: str, sasl: SaslSettings, find: FindCredential) -> Logins:
        host, verify = self._host, None
        if sasl.tokens is not None:
            keys = self._token_keys[listener] = TokenKeys(sasl.tokens, listener, host)
            verify = keys.verifier.verify
        return Logins(sasl, offered(sasl, find, verify, host.entropy), host.clock, host.timers)

    def tls_of(self, listener: str) -> TlsSource | None:
        return self._sources.get(listener)

    def token_verifier(self, listener: str) -> VerifyToken | None:
        """None: it takes no tokens."""
        keys = self._token_keys.get(listener)
        return None if keys is None else keys.verifier.verify

    def authentication_of(self, listener: str) -> PeerAuthentication:
        security = self._listeners[listener]
        if security.protocol == PLAINTEXT:
            return NO_AUTHENTICATION
        return PeerAuthentication(security.rules, self._logins.get(listener))

    def start(self) -> None:
        if self._sources or self._token_keys:
            self._workers = self._host.make_workers("certificates", 1)
            for keys in self._token_keys.values():
                keys.start(self._workers)
        if self._sources:
            self._look_at_dates()
            self._task = tasks.begin(self._keep_looking())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for keys in self._token_keys.values():
            keys.stop()
        if self._workers is not None:
            self._workers.close()

    def expiries(self) -> Iterator[tuple[str, int]]:
        """What each certificate of this node is for, and until when it holds, in wall time."""
        for name, source in self._sources.items():
            if source.own is not None:
                yield name, source.own.not_after_ms

    def logins(self) -> Iterator[tuple[str, int, int]]:
        """For each listener with SASL: logins that succeeded, and that failed."""
        for name, logins in self._logins.items():
            yield name, logins.succeeded, logins.failed

    def _way(self, peer: PeerSecurity, what_for: str, client_id: str) -> Network:
        network, entropy = self._host.network, self._host.entropy
        if peer.protocol == PLAINTEXT:
            return network
        tls = None
        if peer.tls is not None:
            tls = self._sources[what_for] = _source(peer.tls, what_for, server_side=False)
        credentials = None
        if peer.login is not None:
            credentials = credentials_of(peer.login, entropy, _no_token)
        return SecuredNetwork(
            network, self._host.clock, tls=tls, credentials=credentials, client_id=client_id
        )

    # ---- renewed certificates

    async def _keep_looking(self) -> None:
        while True:
            await pause(self._host.timers, LOOK_EVERY_MS)
            for name, source in self._sources.items():
                await self._look_at(name, source)
            self._look_at_dates()

    async def _look_at(self, name: str, source: TlsSource) -> None:
        assert self._workers is not None, "looked at before the start"
        findings = self._host.findings
        try:
            renewed = await self._workers.run(partial(source.renewed, self._wanted(name, source)))
        except TlsError as reason:
            text = f"the certificate of {name} is kept as it was read before: {reason}"
            advice = "a PEM file with a key and its certificates, written whole and then renamed"
            findings.report(UNREADABLE_FINDING, name, text, advice=advice)
            return
        findings.clear(UNREADABLE_FINDING, name)
        if renewed is not None:
            source.adopt(renewed)
            _LOGGER.info("%s: new connections use the certificate as it is on disk now", name)

    def _wanted(self, name: str, source: TlsSource) -> TlsSettings:
        """As the file of this node has it, with the paths that were altered since."""
        live = self._live()
        if not live:
            return source.first_settings
        listener = self._of_others.get(name, name).lower()
        key_file, trust_file = (
            live.get(f"{LISTENER_PREFIX}{listener}.{key}") or live.get(key) for key in LIVE_PATHS
        )
        known = source.first_settings
        return known._replace(
            key_file=key_file or known.key_file, trust_file=trust_file or known.trust_file
        )

    def _look_at_dates(self) -> None:
        now_ms = self._host.clock.wall_ms()
        for name, not_after_ms in self.expiries():
            left_ms = not_after_ms - now_ms
            if left_ms > EXPIRES_SOON_MS:
                self._host.findings.clear(EXPIRES_FINDING, name)
                continue
            days = left_ms // (24 * 3_600_000)
            when = f"expires in {days} days" if left_ms > 0 else "has expired"
            text = f"the certificate of {name} {when}"
            advice = "put a new one in its place: it is read without a restart"
            self._host.findings.report(EXPIRES_FINDING, name, text, advice=advice)


def _source(settings: TlsSettings, name: str, *, server_side: bool) -> TlsSource:
    try:
        return TlsSource(settings, server_side=server_side)
    except TlsError as reason:
        raise CannotStart(f"TLS of {name}: {reason}", advice="see docs/security.md") from None


def _no_token(_path: str) -> str:
    raise AssertionError("nodes do not log in with tokens")
