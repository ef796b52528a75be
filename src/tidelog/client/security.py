"""How a client secures its connections, from properties as Kafka's clients take them.

Names of Java's clients and of librdkafka are understood, so that one file serves all of them.
Properties that say nothing about security are left alone.
"""

import re
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from tidelog.core.security.jaas import parse_jaas
from tidelog.core.security.protocols import (
    PLAINTEXT,
    PROTOCOLS,
    LoginSettings,
    PeerSecurity,
    has_sasl,
    has_tls,
)
from tidelog.core.security.sasl import MECHANISMS, OAUTHBEARER
from tidelog.core.security.tls_settings import CONVERT_STORE, PEM, TLS_VERSIONS, TlsSettings
from tidelog.host.ports import Clock, Entropy, Network
from tidelog.host.tls import TlsError, TlsSource, read_text
from tidelog.rpc.mechanisms import credentials_of
from tidelog.rpc.secured_network import SecuredNetwork

Properties = Mapping[str, str]

OF_PROTOCOL: Final = "security.protocol"
OF_TLS: Final = frozenset(
    (
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    )
)
OF_LOGIN: Final = frozenset(
    (
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
    )
)
SECRET_NAME: Final = r"password|passphrase|secret|jaas|keystore[.]key$|key[.]pem$"  # noqa: S105
"""What the names of properties have in common whose values nobody may see."""
_SECRET = re.compile(SECRET_NAME, re.IGNORECASE)


def is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def is_of_security(name: str) -> bool:
    return name == OF_PROTOCOL or name.startswith(("sasl.", "ssl."))


def names_read(protocol: str) -> frozenset[str]:
    """The properties that count with a protocol, of those that are about security."""
    tls = OF_TLS if has_tls(protocol.upper()) else frozenset()
    login = OF_LOGIN if has_sasl(protocol.upper()) else frozenset()
    return frozenset((OF_PROTOCOL,)) | tls | login


class BadProperties(ValueError):  # noqa: N818 - it names what was given
    """Which property is wrong, and why."""


class Surroundings(Protocol):
    """Of a client: `client.World`."""

    @property
    def clock(self) -> Clock: ...
    @property
    def network(self) -> Network: ...
    @property
    def entropy(self) -> Entropy: ...


def secured(world: Surroundings, properties: Properties, client_id: str) -> Network:
    """Its network, on which connections are made as the properties say. BadProperties if they
    cannot be."""
    security = read_properties(properties)
    if security.protocol == PLAINTEXT:
        return world.network
    tls = None if security.tls is None else _tls_source(security.tls, properties)
    credentials = None
    if security.login is not None:
        credentials = credentials_of(security.login, world.entropy, read_text)
    return SecuredNetwork(
        world.network, world.clock, tls=tls, credentials=credentials, client_id=client_id
    )


def check_properties(properties: Properties) -> None:
    """BadProperties if no connection can be made with them. Reads the files that they name."""
    security = read_properties(properties)
    if security.tls is not None:
        _tls_source(security.tls, properties)


def _tls_source(settings: TlsSettings, properties: Properties) -> TlsSource:
    try:
        return TlsSource(settings, server_side=False)
    except TlsError as reason:
        told = str(reason)
        path = told.partition(": ")[0]
        named = next((name for name in OF_TLS if properties.get(name) == path), None)
        raise BadProperties(f"{named}={told}" if named else told) from None


def read_properties(given: Properties) -> PeerSecurity:
    protocol = (given.get("security.protocol") or PLAINTEXT).upper()
    if protocol not in PROTOCOLS:
        raise BadProperties(f"security.protocol={protocol}: one of {', '.join(PROTOCOLS)}")
    tls = _tls(given) if has_tls(protocol) else None
    login = _login(given) if has_sasl(protocol) else None
    return PeerSecurity(protocol, tls, login)


def _tls(given: Properties) -> TlsSettings:
    for store in ("ssl.keystore", "ssl.truststore"):
        _check_store(given, store)
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https")
    return TlsSettings(
        key_file=_first(given, "ssl.keystore.location", "ssl.key.location"),
        chain_file=_first(given, "ssl.certificate.location"),
        key=_first(given, "ssl.keystore.key", "ssl.key.pem"),
        chain=_first(given, "ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        key_password=_first(given, "ssl.key.password"),
        trust_file=_first(given, "ssl.truststore.location", "ssl.ca.location"),
        trusted=_first(given, "ssl.truststore.certificates", "ssl.ca.pem"),
        versions=_listed(given, "ssl.enabled.protocols") or TLS_VERSIONS,
        ciphers=_listed(given, "ssl.cipher.suites"),
        check_host=algorithm.lower() == "https",
    )


def _check_store(given: Properties, store: str) -> None:
    """Java's clients take a store without a type for a JKS; a PEM file is named as one."""
    location = given.get(f"{store}.location")
    kind = given.get(f"{store}.type") or (PEM if (location or PEM).endswith(".pem") else "JKS")
    if location and kind.upper() != PEM:
        raise BadProperties(
            f"{store}.type={kind}: only PEM can be read here; to convert: {CONVERT_STORE}"
        )


def _login(given: Properties) -> LoginSettings:
    mechanism = _first(given, "sasl.mechanism", "sasl.mechanisms") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise BadProperties(f"sasl.mechanism={mechanism}: one of {', '.join(MECHANISMS)}")
    if mechanism == OAUTHBEARER:
        return LoginSettings(mechanism, token_file=_token_file(given))
    user, password = given.get("sasl.username"), given.get("sasl.password")
    jaas = given.get("sasl.jaas.config")
    if jaas and not user:
        try:
            options = parse_jaas(jaas).options
        except ValueError as reason:
            raise BadProperties(f"sasl.jaas.config: {reason}") from None
        user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise BadProperties(
            f"{mechanism} needs sasl.username and sasl.password, or sasl.jaas.config with both"
        )
    return LoginSettings(mechanism, user, password)


def _token_file(given: Properties) -> str:
    key = "sasl.oauthbearer.token.endpoint.url"
    address = urlsplit(given.get(key, ""))
    if address.scheme != "file" or not address.path:
        raise BadProperties(f"{key}: a token is read from a file, as file:///path/to/token")
    return unquote(address.path)


def _first(given: Properties, *names: str) -> str | None:
    return next((given[name] for name in names if given.get(name)), None)


def _listed(given: Properties, name: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in given.get(name, "").split(","))))
