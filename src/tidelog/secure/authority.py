"""A certificate authority for one cluster, and the certificates that it issues.

Every certificate is for one use. Nodes prove to each other and to clients who they are; users may
prove it to nodes. A node's certificate names its organisational unit, and only that makes it a
node: the authority issues certificates of that unit to nobody else.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidelog.secure.home import CERTIFICATE_NAME, KEY_NAME
from tidelog.secure.node_settings import NODE_UNIT, USER_UNIT
from tidelog.secure.secret_files import write_secret

AUTHORITY_LIFE: Final = datetime.timedelta(days=3650)
CERTIFICATE_LIFE: Final = datetime.timedelta(days=397)
"""Browsers and some TLS libraries refuse certificates that are valid for longer than this."""
CLOCK_SKEW: Final = datetime.timedelta(hours=1)
"""A machine whose clock is behind must accept a certificate that was issued a moment ago."""


class NoAuthority(Exception):  # noqa: N818 - it names what is so
    """There is no authority in this directory, or its files cannot be read."""


class Issued(NamedTuple):
    """A private key with the certificate for it, as PEM."""

    key: bytes
    certificate: bytes

    @property
    def bundle(self) -> bytes:
        """Both in one file, in the order in which Kafka's PEM key stores have them."""
        return self.key + self.certificate


class Authority:
    """Signs the certificates of one cluster."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def make(cls, cluster: str, now: datetime.datetime) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{cluster} authority", "tidelog")
        builder = (
            _builder(name, name, key.public_key(), now, AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        try:
            key = serialization.load_pem_private_key((directory / KEY_NAME).read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(
                (directory / CERTIFICATE_NAME).read_bytes()
            )
        except (OSError, ValueError, TypeError) as reason:
            raise NoAuthority(f"{directory}: {reason}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise NoAuthority(f"{directory / KEY_NAME}: not a key that `tidelog secure init` made")
        return cls(key, certificate)

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        write_secret(directory / KEY_NAME, _pem_key(self._key))
        (directory / CERTIFICATE_NAME).write_bytes(self.certificate)

    @property
    def certificate(self) -> bytes:
        """What clients and nodes trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def expires(self) -> datetime.datetime:
        return self._certificate.not_valid_after_utc

    def issue_to_node(self, name: str, hosts: Sequence[str], now: datetime.datetime) -> Issued:
        """For both ends of a connection: nodes also connect to each other. `hosts` are the names
        and addresses at which it can be reached."""
        uses = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        return self._issue(_name(name, NODE_UNIT), uses, names, now)

    def issue_to_user(self, name: str, now: datetime.datetime) -> Issued:
        return self._issue(_name(name, USER_UNIT), (ExtendedKeyUsageOID.CLIENT_AUTH,), None, now)

    def _issue(
        self,
        name: x509.Name,
        uses: Sequence[x509.ObjectIdentifier],
        alternatives: x509.SubjectAlternativeName | None,
        now: datetime.datetime,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        life = min(CERTIFICATE_LIFE, self.expires - now)
        builder = (
            _builder(name, self._certificate.subject, key.public_key(), now, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(_pem_key(key), certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str, unit: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
