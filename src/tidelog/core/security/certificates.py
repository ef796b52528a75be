"""What a certificate says about its owner, read from its DER bytes (X.509, RFC 5280).

Only what the standard library does not tell of every certificate: the subject as Java writes it
(RFC 2253), because ACLs and mapping rules were written for that form, and when it expires.
"""

from calendar import timegm
from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET, OBJECT_ID = 0x30, 0x31, 0x06
EXPLICIT_VERSION = 0xA0
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
TEXT_ENCODINGS = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Of the string types of ASN.1, by tag."""

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""RFC 2253 names these; every other attribute is written by its number, its value in hex."""

_SPECIAL = ',+"\\<>;'


class CertificateError(ValueError):
    """These bytes are no certificate."""


class Element(NamedTuple):
    """One value of ASN.1."""

    tag: int
    content: bytes
    encoded: bytes
    """With its tag and length."""


class CertificateFacts(NamedTuple):
    subject: str
    """Its owner, in the form of RFC 2253: "CN=node1,OU=brokers,O=Tides"."""
    not_before_ms: int
    not_after_ms: int


def read_certificate(der: bytes) -> CertificateFacts:
    """CertificateError if it is none."""
    try:
        signed = next(elements(der))
        body = list(elements(next(elements(signed.content)).content))
        if body[0].tag == EXPLICIT_VERSION:
            body = body[1:]
        _serial, _algorithm, _issuer, validity, subject = body[:5]
        begins, ends = elements(validity.content)
        return CertificateFacts(
            distinguished_name(subject.content), _time_ms(begins), _time_ms(ends)
        )
    except (IndexError, ValueError, StopIteration) as reason:
        raise CertificateError("not a certificate") from reason


def elements(data: bytes) -> Iterator[Element]:
    """The values that stand one after the other in some bytes."""
    position = 0
    while position < len(data):
        begin, tag, length = position, data[position], data[position + 1]
        position += 2
        if length >= 0x80:
            size_bytes = length & 0x7F
            length = int.from_bytes(data[position : position + size_bytes], "big")
            position += size_bytes
        end = position + length
        if end > len(data):
            raise CertificateError(f"{length} bytes announced, {len(data) - position} left")
        yield Element(tag, data[position:end], data[begin:end])
        position = end


def distinguished_name(content: bytes) -> str:
    """The last part of a name first, as RFC 2253 wants it."""
    parts = []
    for part in elements(content):
        pairs = [tuple(elements(pair.content)) for pair in elements(part.content)]
        parts.append("+".join(_attribute(kind, value) for kind, value in pairs))
    return ",".join(reversed(parts))


def object_id(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = (number << 7) | (byte & 0x7F)
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _attribute(kind: Element, value: Element) -> str:
    number = object_id(kind.content)
    keyword = KEYWORDS.get(number)
    encoding = TEXT_ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{number}=#{value.encoded.hex()}"
    return f"{keyword}={escaped(value.content.decode(encoding))}"


def escaped(text: str) -> str:
    """RFC 2253, 2.4."""
    found = "".join(f"\\{each}" if each in _SPECIAL else each for each in text)
    if found.startswith((" ", "#")):
        found = "\\" + found
    if found.endswith(" ") and len(found) > 1:
        found = found[:-1] + "\\ "
    return found


def _time_ms(element: Element) -> int:
    text = element.content.decode("ascii")
    if element.tag == UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif element.tag != GENERALIZED_TIME:
        raise CertificateError(f"tag {element.tag} is no time")
    fields = [int(text[0:4]), *(int(text[at : at + 2]) for at in range(4, 14, 2))]
    return timegm((*fields, 0, 0, 0)) * 1000
