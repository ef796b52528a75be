"""Security protocols of listeners, and what belongs to each."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.core.security.principal_rules import PrincipalRules
from tidelog.core.security.tls_settings import TlsSettings

PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)


def has_tls(protocol: str) -> bool:
    return protocol in (SSL, SASL_SSL)


def has_sasl(protocol: str) -> bool:
    return protocol in (SASL_PLAINTEXT, SASL_SSL)


class TokenSettings(NamedTuple):
    """Which bearer tokens are believed (`sasl.oauthbearer.…`)."""

    keys_url: str
    """Where the public keys of the issuer are: file:///path or https://…"""
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    user_claim: str = "sub"
    clock_skew_s: int = 30
    refresh_ms: int = 3_600_000


class SaslSettings(NamedTuple):
    """How a listener lets people log in."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = {}
    tokens: TokenSettings | None = None
    reauth_max_ms: int = 0
    """How long a login holds; 0: as long as the connection, if a token says nothing else."""
    failed_delay_ms: int = 100

    def __repr__(self) -> str:
        return f"SaslSettings({', '.join(self.mechanisms)})"


class LoginSettings(NamedTuple):
    """How this process logs in somewhere else."""

    mechanism: str
    user: str = ""
    password: str = ""
    token_file: str | None = None

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"LoginSettings({self.mechanism}, {self.user})"


class ListenerSecurity(NamedTuple):
    protocol: str = PLAINTEXT
    tls: TlsSettings | None = None
    rules: PrincipalRules = ()
    sasl: SaslSettings | None = None


class HttpSecurity(NamedTuple):
    """Of the port for people and their tools. Passwords are those of SCRAM users."""

    tls: TlsSettings | None = None
    rules: PrincipalRules = ()
    tokens: TokenSettings | None = None
    """None: bearer tokens are not taken."""
    failed_delay_ms: int = 100
    loopback_is_open: bool = True
    """For reading."""


class PeerSecurity(NamedTuple):
    """How to connect to others."""

    protocol: str = PLAINTEXT
    tls: TlsSettings | None = None
    login: LoginSettings | None = None
