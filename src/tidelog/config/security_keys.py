"""Keys of connections that are encrypted and of peers that have to say who they are."""

from tidelog.config.key_types import (
    BrokerKey,
    duration,
    implemented,
    integer,
    names,
    secret,
    text,
    unsupported,
    without_effect,
)
from tidelog.core.security.protocols import PROTOCOLS
from tidelog.core.security.tls_settings import TLS_VERSIONS

PEER: tuple[BrokerKey, ...] = (
    *implemented(
        text(
            "security.inter.broker.protocol",
            "PLAINTEXT",
            "The security protocol between brokers if no listener is named.",
            choices=PROTOCOLS,
        ),
        duration(
            "connections.max.reauth.ms",
            0,
            "How long a SASL login is valid; 0 as long as the connection.",
            at_least=0,
        ),
        duration(
            "connection.failed.authentication.delay.ms",
            100,
            "The pause before a failed login is answered.",
            at_least=0,
        ),
        text(
            "ssl.principal.mapping.rules",
            "DEFAULT",
            "Rules that map a certificate's subject to a user name (KIP-371).",
        ),
    ),
    *unsupported(
        text(
            "principal.builder.class", None, "A Java class that derives the user of a connection."
        ),
    ),
)

TLS: tuple[BrokerKey, ...] = (
    *implemented(
        text(
            "ssl.keystore.type",
            "JKS",
            "The format of the key store: only PEM can be read here.",
        ),
        text(
            "ssl.keystore.location",
            None,
            "The PEM file with the key of this node and its certificates.",
            live=True,
        ),
        secret(
            "ssl.keystore.certificate.chain",
            "The certificates of this node, as PEM.",
        ),
        secret("ssl.keystore.key", "The key of this node, as PEM (PKCS #8)."),
        secret("ssl.key.password", "The password of an encrypted key."),
        text(
            "ssl.truststore.type",
            "JKS",
            "The format of the trust store: only PEM can be read here.",
        ),
        text(
            "ssl.truststore.location",
            None,
            "The PEM file with the certificates to trust.",
            live=True,
        ),
        secret("ssl.truststore.certificates", "The certificates to trust, as PEM."),
        text(
            "ssl.client.auth",
            "none",
            "Whether clients must present a certificate.",
            choices=("none", "requested", "required"),
        ),
        names(
            "ssl.enabled.protocols",
            TLS_VERSIONS,
            "The allowed versions of TLS.",
            choices=("TLSv1", "TLSv1.1", *TLS_VERSIONS),
        ),
        names("ssl.cipher.suites", (), "The ciphers of TLS 1.2 that are allowed; all if empty."),
        text(
            "ssl.endpoint.identification.algorithm",
            "https",
            "How a node's name is checked against its certificate; empty: not at all.",
        ),
    ),
    *without_effect(
        secret("ssl.keystore.password", "The password of a JKS or PKCS #12 file."),
        secret("ssl.truststore.password", "The password of a JKS or PKCS #12 file."),
        text("ssl.protocol", "TLSv1.3", "The preferred version of TLS: always the newest here."),
    ),
)

SASL: tuple[BrokerKey, ...] = (
    *implemented(
        names("sasl.enabled.mechanisms", ("GSSAPI",), "How clients may log in."),
        text("sasl.mechanism.inter.broker.protocol", "GSSAPI", "How brokers log in to each other."),
        text("sasl.mechanism.controller.protocol", "GSSAPI", "How nodes log in to controllers."),
        secret(
            "sasl.jaas.config",
            "The users of PLAIN, and this node's own login, in Java's format.",
        ),
        text(
            "sasl.oauthbearer.jwks.endpoint.url",
            None,
            "The address of the keys that verify bearer tokens: file:///… or https://….",
        ),
        names("sasl.oauthbearer.expected.audience", (), "The audiences a token may be for."),
        text("sasl.oauthbearer.expected.issuer", None, "The issuer that a token must name."),
        text("sasl.oauthbearer.sub.claim.name", "sub", "The claim with the user's name."),
        integer(
            "sasl.oauthbearer.clock.skew.seconds",
            30,
            "How far the issuer's clock may be off.",
            at_least=0,
        ),
        duration(
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            3_600_000,
            "How often the keys are read again.",
            at_least=1,
        ),
    ),
    *unsupported(
        secret("delegation.token.secret.key", "The key that signs delegation tokens."),
    ),
)

PER_LISTENER = frozenset(
    key.name for key in (*PEER, *TLS, *SASL) if key.name != "security.inter.broker.protocol"
)
"""What may be said for one listener alone, as `listener.name.internal.ssl.keystore.location`."""
