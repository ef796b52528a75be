"""TLS contexts from PEM files, made again when the files have changed.

A context belongs to the connections that were made with it. A new certificate is a new context:
connections that are open keep the old one, new ones get the new one, and nothing restarts.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tidelog.core.security.certificates import (
    CertificateError,
    CertificateFacts,
    read_certificate,
)
from tidelog.core.security.tls_settings import (
    ClientAuth,
    TlsSettings,
    is_tls13_suite,
    openssl_cipher,
)

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsError(Exception):
    """Keys or certificates that cannot be used, and why."""


class Stamp(NamedTuple):
    """What tells that a file was written anew."""

    path: str
    inode: int
    size_bytes: int
    changed_ns: int


class TlsMaterial(NamedTuple):
    """Everything that was made of one reading of the files."""

    context: ssl.SSLContext
    own: CertificateFacts | None
    """What the certificate that this end shows says; None if it shows none."""
    stamps: tuple[Stamp, ...]
    settings: TlsSettings


class TlsSource:
    """The context for the next connection of a listener, or to a kind of peer."""

    __slots__ = ("_material", "_server_side", "first_settings")

    def __init__(self, settings: TlsSettings, *, server_side: bool) -> None:
        """TlsError if the files cannot be used."""
        self.first_settings = settings
        self._server_side = server_side
        self._material = self.read(settings)

    def __call__(self) -> ssl.SSLContext:
        return self._material.context

    @property
    def own(self) -> CertificateFacts | None:
        return self._material.own

    def read(self, settings: TlsSettings) -> TlsMaterial:
        """From the files as they are now. Waits for a disk; changes nothing by itself."""
        stamps = stamps_of(settings)
        context = make_context(settings, server_side=self._server_side)
        return TlsMaterial(context, own_certificate(settings), stamps, settings)

    def renewed(self, settings: TlsSettings) -> TlsMaterial | None:
        """What to adopt if settings or files are others than those that were read. Waits for a
        disk; TlsError if they cannot be used."""
        known = self._material
        if settings == known.settings and stamps_of(settings) == known.stamps:
            return None
        return self.read(settings)

    def adopt(self, material: TlsMaterial) -> None:
        """For the next connections."""
        self._material = material


def make_context(settings: TlsSettings, *, server_side: bool) -> ssl.SSLContext:
    """TlsError names the setting that is wrong."""
    kind = ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(kind)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _choose_versions(context, settings)
    _choose_ciphers(context, settings)
    if server_side:
        if not settings.has_key:
            raise TlsError("ssl.keystore.location: a listener with TLS needs a certificate")
        context.verify_mode = _VERIFY[settings.client_auth]
    else:
        context.check_hostname = settings.check_host
    _load_trust(context, settings, server_side=server_side)
    if settings.has_key:
        _load_key(context, settings)
    return context


def own_certificate(settings: TlsSettings) -> CertificateFacts | None:
    """The first certificate of the chain, which is the one of this end."""
    if not settings.has_key:
        return None
    if settings.chain is not None:
        text = settings.chain
    else:
        text = read_text(settings.chain_file or settings.key_file or "")
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise TlsError("ssl.keystore.location: there is no certificate beside the key")
    try:
        return read_certificate(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)]))
    except (CertificateError, ValueError) as reason:
        raise TlsError(f"ssl.keystore.location: {reason}") from None


def stamps_of(settings: TlsSettings) -> tuple[Stamp, ...]:
    """TlsError if a file is not there."""
    stamps = []
    for path in settings.files:
        try:
            found = os.stat(path)
        except OSError as reason:
            raise TlsError(f"{path}: {reason.strerror}") from None
        stamps.append(Stamp(path, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamps)


def _choose_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    chosen = [_VERSIONS[each] for each in settings.versions if each in _VERSIONS]
    if not chosen:
        raise TlsError(f"ssl.enabled.protocols: only {' and '.join(_VERSIONS)} can be had")
    context.minimum_version = min(chosen)
    context.maximum_version = max(chosen)


def _choose_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """OpenSSL lets nobody choose among the three suites of TLS 1.3, which are all sound."""
    if not settings.ciphers:
        return
    older = [openssl_cipher(each) for each in settings.ciphers if not is_tls13_suite(each)]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        given = ",".join(settings.ciphers)
        raise TlsError(f"ssl.cipher.suites={given}: OpenSSL has none of these") from None


def _load_trust(context: ssl.SSLContext, settings: TlsSettings, *, server_side: bool) -> None:
    try:
        if settings.trust_file is not None:
            context.load_verify_locations(cafile=settings.trust_file)
        if settings.trusted is not None:
            context.load_verify_locations(cadata=settings.trusted)
    except (OSError, ValueError) as reason:  # an SSLError is an OSError
        where = settings.trust_file or "ssl.truststore.certificates"
        raise TlsError(f"{where}: no certificate in PEM ({_short(reason)})") from None
    if settings.trust_file is None and settings.trusted is None:
        if server_side and settings.client_auth is not ClientAuth.NONE:
            raise TlsError("ssl.truststore.location: nobody knows which client certificates count")
        if not server_side:
            context.load_default_certs()


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    def password() -> str:
        if settings.key_password is None:
            raise TlsError("ssl.key.password: the key is encrypted, and there is no password")
        return settings.key_password

    with _as_file(settings.chain) as chain_file, _as_file(settings.key) as key_file:
        chain = chain_file or settings.chain_file or settings.key_file or ""
        key = key_file or settings.key_file
        try:
            context.load_cert_chain(chain, key, password=password)
        except ssl.SSLError as reason:
            where = settings.key_file or "ssl.keystore.key"
            raise TlsError(
                f"{where}: no key and certificate in PEM that belong together ({_short(reason)})"
            ) from None
        except OSError as reason:
            raise TlsError(f"{settings.key_file}: {reason.strerror}") from None


@contextmanager
def _as_file(text: str | None) -> Iterator[str | None]:
    """OpenSSL reads keys from files only. This one lies in memory and has no name."""
    if text is None:
        yield None
        return
    descriptor = os.memfd_create("tidelog-tls")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def read_text(path: str) -> str:
    """Of a small file beside the settings; TlsError if it is not there."""
    try:
        with open(path, encoding="latin-1") as file:
            return file.read().strip()
    except OSError as reason:
        raise TlsError(f"{path}: {reason.strerror}") from None


def _short(reason: Exception) -> str:
    return str(getattr(reason, "reason", None) or reason)
