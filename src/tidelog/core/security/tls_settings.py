"""What one end of a TLS connection shows, trusts and accepts, as data."""

from enum import StrEnum
from typing import NamedTuple

PEM = "PEM"
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
CONVERT_STORE = (
    "openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem (a JKS first: keytool -importkeystore "
    "-srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12)"
)
"""What makes a PEM file of a key store of Java's."""


class ClientAuth(StrEnum):
    """Whether clients show a certificate (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsSettings(NamedTuple):
    """Files by path, or what would stand in them. Never printed: a key may be among it."""

    key_file: str | None = None
    """Key and certificate chain in one file (`ssl.keystore.location`), or the key alone."""
    chain_file: str | None = None
    """The certificate chain, where it has a file of its own."""
    key: str | None = None
    chain: str | None = None
    key_password: str | None = None
    trust_file: str | None = None
    trusted: str | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = TLS_VERSIONS
    ciphers: tuple[str, ...] = ()
    check_host: bool = True
    """Whether the name of a server is compared with its certificate."""

    @property
    def files(self) -> tuple[str, ...]:
        """Whose change makes a reload worthwhile."""
        given = (self.key_file, self.chain_file, self.trust_file)
        return tuple(each for each in given if each is not None)

    @property
    def has_key(self) -> bool:
        return self.key_file is not None or self.key is not None

    def __repr__(self) -> str:
        shown = ", ".join(self.files) or "PEM in properties"
        return f"TlsSettings({shown})"


def openssl_cipher(name: str) -> str:
    """A cipher of TLS 1.2 as OpenSSL calls it, from the name that Java and IANA give it.

    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384.
    """
    if not name.startswith("TLS_") or "_WITH_" not in name:
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    for bits in ("128", "256"):
        cipher = cipher.replace(f"AES_{bits}_CBC", f"AES{bits}").replace(
            f"AES_{bits}", f"AES{bits}"
        )
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = [] if exchange == "RSA" else [exchange]
    return "_".join([*parts, cipher]).replace("_", "-")


def is_tls13_suite(name: str) -> bool:
    """TLS_AES_256_GCM_SHA384 and the like, which name no key exchange."""
    return name.startswith("TLS_") and "_WITH_" not in name
