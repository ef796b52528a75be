"""What a certificate says of itself."""

from cryptography import x509


def hosts_of(bundle: bytes) -> list[str]:
    """The names and addresses at which its node can be reached."""
    certificate = x509.load_pem_x509_certificate(bundle)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]
