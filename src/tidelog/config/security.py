"""How each listener is secured, and how this node connects to others."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidelog.config.endpoints import HttpAddress, is_loopback, parse_http_address
from tidelog.config.layers import Finding
from tidelog.config.listener_settings import ListenerSettings
from tidelog.config.settings import Settings
from tidelog.config.topology import Topology
from tidelog.core.security.jaas import JaasEntry, parse_jaas
from tidelog.core.security.principal_rules import PrincipalRules, parse_rules
from tidelog.core.security.protocols import (
    PLAINTEXT,
    SSL,
    HttpSecurity,
    ListenerSecurity,
    LoginSettings,
    PeerSecurity,
    SaslSettings,
    TokenSettings,
    has_sasl,
    has_tls,
)
from tidelog.core.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN, SCRAM
from tidelog.core.security.tls_settings import CONVERT_STORE, PEM, ClientAuth, TlsSettings

KEYSTORE, TRUSTSTORE = "ssl.keystore", "ssl.truststore"
RULES = "ssl.principal.mapping.rules"
MECHANISMS_KEY = "sasl.enabled.mechanisms"
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
JAAS = "sasl.jaas.config"
HTTP = "HTTP"
"""As if it were a listener: `listener.name.http.ssl.…`."""
HTTP_KEY = "tidelog.http.listener"
KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"


class Security(NamedTuple):
    listeners: Mapping[str, ListenerSecurity]
    """By name; also of the controllers' first listener on a node that is none."""
    to_brokers: PeerSecurity
    to_controllers: PeerSecurity
    http: HttpSecurity = HttpSecurity()

    @property
    def is_plain(self) -> bool:
        """Nothing is encrypted, and nobody logs in."""
        return all(each.protocol == PLAINTEXT for each in self.listeners.values())


def read_security(settings: Settings, topology: Topology, problems: list[Finding]) -> Security:
    protocols = {each.name: each.protocol or PLAINTEXT for each in topology.listeners}
    controllers = topology.controller_listeners[:1]
    protocols.update((name, topology.controller_protocol) for name in controllers)
    readers = {name: _Reader(settings, name, problems) for name in protocols}
    opened = [each.name for each in topology.listeners]
    listeners = {
        name: readers[name].listener(protocol, is_controller=name in topology.controller_listeners)
        for name, protocol in protocols.items()
        if name in opened
    }
    brokers = topology.inter_broker_listener
    to_brokers = to_controllers = PeerSecurity()
    if brokers in readers:
        to_brokers = readers[brokers].peer(protocols[brokers], INTER_BROKER_MECHANISM)
    elif settings.is_set("inter.broker.listener.name"):
        to_brokers = _from_controller(settings, topology)
    for name in controllers:
        to_controllers = readers[name].peer(protocols[name], CONTROLLER_MECHANISM)
    return Security(listeners, to_brokers, to_controllers, _read_http(settings, problems))


def _from_controller(settings: Settings, topology: Topology) -> PeerSecurity:
    """A node without brokers' listeners needs no login to them but for the audit trail: without
    one it starts, and a finding says that the trail is not written."""
    problems: list[Finding] = []
    reader = _Reader(settings, topology.inter_broker_listener, problems)
    peer = reader.peer(topology.inter_broker_protocol, INTER_BROKER_MECHANISM)
    return PeerSecurity() if problems else peer


def _read_http(settings: Settings, problems: list[Finding]) -> HttpSecurity:
    address = _http_address(settings)
    return HttpSecurity() if address is None else _Reader(settings, HTTP, problems).http(address)


def _http_address(settings: Settings) -> HttpAddress | None:
    """None if there is none, or none that can be understood, which was reported."""
    text = None if settings.is_broken(HTTP_KEY) else settings.text(HTTP_KEY)
    try:
        return parse_http_address(text) if text else None
    except ValueError:
        return None


def security_warnings(
    settings: Settings, topology: Topology, security: Security
) -> Iterator[Finding]:
    """A password in plain text is no secret on a network."""
    hosts = {each.name: each.host for each in topology.listeners}
    for name, each in security.listeners.items():
        sasl, host = each.sasl, hosts.get(name, "")
        if sasl is None or each.tls is not None or is_loopback(host):
            continue
        if PLAIN in sasl.mechanisms or OAUTHBEARER in sasl.mechanisms:
            why = f"passwords and tokens cross the network of {name} as plain text"
            yield settings.finding(MECHANISMS_KEY, why, f"{name}:SASL_SSL, or SCRAM-SHA-512")
    http = _http_address(settings)
    in_plain_text = security.http.tls is None and not security.is_plain
    if http is not None and in_plain_text and not is_loopback(http.host):
        why = "passwords and tokens of HTTP cross the network as plain text"
        advice = f"https://{http.host}:{http.port}, with ssl.keystore.location"
        yield settings.finding(HTTP_KEY, why, advice)


class _Reader:
    """Reads what belongs to one listener; what cannot be read is among the problems."""

    def __init__(self, settings: Settings, listener: str, problems: list[Finding]) -> None:
        self._given = ListenerSettings(settings, listener)
        self._problems = problems
        self._reported: list[Finding] = []

    def listener(self, protocol: str, *, is_controller: bool) -> ListenerSecurity:
        tls = self._tls() if has_tls(protocol) else None
        if tls is not None and not tls.has_key:
            why = "TLS needs a key and a certificate"
            self._complain(f"{KEYSTORE}.location", why, f"{KEYSTORE}.location=node.pem")
        rules = self._rules() if has_tls(protocol) else ()
        sasl = self._sasl(is_controller=is_controller) if has_sasl(protocol) else None
        return ListenerSecurity(protocol, tls, rules, sasl)

    def http(self, address: HttpAddress) -> HttpSecurity:
        given = self._given
        has_key = given.text(f"{KEYSTORE}.location") or given.text(f"{KEYSTORE}.key")
        by_itself = address.scheme == "" and not is_loopback(address.host) and bool(has_key)
        protocol = SSL if address.scheme == "https" or by_itself else PLAINTEXT
        listener = self.listener(protocol, is_controller=False)
        return HttpSecurity(
            listener.tls,
            listener.rules,
            self._tokens() if given.text(KEYS_URL) is not None else None,
            failed_delay_ms=given.whole("connection.failed.authentication.delay.ms"),
            loopback_is_open=given.settings.flag("tidelog.http.loopback.open"),
        )

    def peer(self, protocol: str, mechanism_key: str) -> PeerSecurity:
        tls = self._tls() if has_tls(protocol) else None
        login = self._login(mechanism_key) if has_sasl(protocol) else None
        return PeerSecurity(protocol, tls, login)

    def _complain(self, name: str, why: str, advice: str, mechanism: str = "") -> None:
        """Once: a listener and the way to others may have the same fault."""
        finding = self._given.finding(name, why, advice, mechanism)
        if finding not in self._problems:
            self._problems.append(finding)

    # ---- TLS

    def _tls(self) -> TlsSettings:
        given = self._given
        self._check_store(KEYSTORE, (f"{KEYSTORE}.key", f"{KEYSTORE}.certificate.chain"))
        self._check_store(TRUSTSTORE, (f"{TRUSTSTORE}.certificates",))
        chain, key = given.text(f"{KEYSTORE}.certificate.chain"), given.text(f"{KEYSTORE}.key")
        if (chain is None) != (key is None):
            missing = f"{KEYSTORE}.key" if key is None else f"{KEYSTORE}.certificate.chain"
            self._complain(missing, "a key and its certificates go together", f"{missing}=…")
        return TlsSettings(
            key_file=given.text(f"{KEYSTORE}.location"),
            key=key,
            chain=chain,
            key_password=given.text("ssl.key.password"),
            trust_file=given.text(f"{TRUSTSTORE}.location"),
            trusted=given.text(f"{TRUSTSTORE}.certificates"),
            client_auth=ClientAuth(given.text("ssl.client.auth") or "none"),
            versions=given.items("ssl.enabled.protocols"),
            ciphers=given.items("ssl.cipher.suites"),
            check_host=given.text("ssl.endpoint.identification.algorithm") == "https",
        )

    def _check_store(self, store: str, in_place: tuple[str, ...]) -> None:
        given = self._given
        location, kind = given.text(f"{store}.location"), given.text(f"{store}.type") or ""
        inline = [name for name in in_place if given.text(name) is not None]
        if (location is None and not inline) or kind.upper() == PEM:
            return
        why = f"{kind} files are Java's; only PEM can be read here"
        self._complain(f"{store}.type", why, f"{store}.type=PEM, with a file from: {CONVERT_STORE}")

    def _rules(self) -> PrincipalRules:
        try:
            return parse_rules(self._given.text(RULES) or "DEFAULT")
        except ValueError as reason:
            self._complain(RULES, str(reason), f"{RULES}=RULE:^CN=([^,]+).*$/$1/,DEFAULT")
            return ()

    # ---- SASL

    def _sasl(self, *, is_controller: bool) -> SaslSettings:
        given = self._given
        mechanisms = given.items(MECHANISMS_KEY)
        for each in mechanisms:
            if each not in MECHANISMS:
                why = f"nobody can log in with {each} here"
                self._complain(MECHANISMS_KEY, why, f"{MECHANISMS_KEY}=SCRAM-SHA-512")
            elif each in SCRAM and is_controller:
                why = "users of SCRAM are in the metadata that controllers have to agree on first"
                self._complain(MECHANISMS_KEY, why, "SSL with client certificates, or PLAIN")
        users = self._plain_users() if PLAIN in mechanisms else {}
        tokens = self._tokens() if OAUTHBEARER in mechanisms else None
        return SaslSettings(
            mechanisms,
            users,
            tokens,
            reauth_max_ms=given.whole("connections.max.reauth.ms"),
            failed_delay_ms=given.whole("connection.failed.authentication.delay.ms"),
        )

    def _plain_users(self) -> dict[str, str]:
        entry = self._jaas(PLAIN)
        return {} if entry is None else entry.users

    def _jaas(self, mechanism: str) -> JaasEntry | None:
        text = self._given.text(JAAS, mechanism)
        if text is None:
            why = f"{mechanism} needs users and passwords"
            advice = f'{self._given.name_of(JAAS, mechanism)}=… required username="…" …;'
            self._complain(JAAS, why, advice, mechanism)
            return None
        try:
            return parse_jaas(text)
        except ValueError as reason:
            advice = 'org.apache.….PlainLoginModule required username="…" password="…";'
            self._complain(JAAS, str(reason), advice, mechanism)
            return None

    def _tokens(self) -> TokenSettings | None:
        given = self._given
        url = given.text(KEYS_URL)
        if url is None or not url.startswith(("file://", "https://")):
            why = "tokens are believed by the keys at a file:// or https:// address alone"
            self._complain(KEYS_URL, why, f"{KEYS_URL}=file:///etc/tidelog/jwks.json")
            return None
        return TokenSettings(
            url,
            given.text("sasl.oauthbearer.expected.issuer"),
            given.items("sasl.oauthbearer.expected.audience"),
            given.text("sasl.oauthbearer.sub.claim.name") or "sub",
            given.whole("sasl.oauthbearer.clock.skew.seconds"),
            given.whole("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        )

    def _login(self, mechanism_key: str) -> LoginSettings | None:
        mechanism = self._given.settings.text(mechanism_key) or ""
        if mechanism not in (PLAIN, *SCRAM):
            why = f"nodes cannot log in with {mechanism}"
            self._complain(mechanism_key, why, f"{mechanism_key}=PLAIN or SCRAM-SHA-512")
            return None
        entry = self._jaas(mechanism)
        if entry is None:
            return None
        user, password = entry.options.get("username"), entry.options.get("password")
        if not user or not password:
            why = "it does not say as whom this node logs in"
            self._complain(JAAS, why, 'username="…" password="…"', mechanism)
            return None
        return LoginSettings(mechanism, user, password)
