"""Certificates for stories: a CA that signs whatever a story needs, also what must be refused."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
_OIDS = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "C": NameOID.COUNTRY_NAME,
    "EMAIL": NameOID.EMAIL_ADDRESS,
}


class Leaf(NamedTuple):
    """A key and its certificate, as PEM."""

    key: str
    certificate: str

    @property
    def der(self) -> bytes:
        loaded = x509.load_pem_x509_certificate(self.certificate.encode())
        return loaded.public_bytes(serialization.Encoding.DER)

    def encrypted_key(self, password: str) -> str:
        loaded = serialization.load_pem_private_key(self.key.encode(), None)
        encryption = serialization.BestAvailableEncryption(password.encode())
        return _key_pem(loaded, encryption)

    def write(self, path: Path) -> Path:
        """Key and certificate in one file, as `ssl.keystore.location` wants it."""
        path.write_text(self.key + self.certificate)
        return path


class Authority:
    """Signs with a key of its own."""

    def __init__(self, name: str = "tides-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name({"CN": name})
        now = datetime.datetime.now(datetime.UTC)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        built = _builder(self._name, self._name, self._key, now - DAY, now + 3650 * DAY)
        signed = built.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = _pem(signed)

    def write(self, path: Path) -> Path:
        path.write_text(self.certificate)
        return path

    def leaf(
        self,
        subject: dict[str, str] | str,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        expires_in: datetime.timedelta = 365 * DAY,
    ) -> Leaf:
        """`expires_in` below zero: it has expired already."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = {"CN": subject} if isinstance(subject, str) else subject
        now = datetime.datetime.now(datetime.UTC)
        built = _builder(_name(names), self._name, key, now - 100 * DAY, now + expires_in)
        if hosts:
            alternatives = x509.SubjectAlternativeName([_host(each) for each in hosts])
            built = built.add_extension(alternatives, critical=False)
        return Leaf(_key_pem(key), _pem(built.sign(self._key, hashes.SHA256())))


def _builder(subject, issuer, key, begins, ends):
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _name(parts: dict[str, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(_OIDS[each], text) for each, text in parts.items()])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key, encryption=None) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    ).decode()
