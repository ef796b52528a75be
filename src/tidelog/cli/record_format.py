r"""How one record is printed: percent verbs, as in rpk and kcl.

    %t topic      %k key        %p partition      %d timestamp, ms    %[ log start offset
    %h headers    %v value      %o offset         %e leader epoch     %] high watermark
    %T %K %V lengths in bytes   %H number of headers                  %% a percent sign

`%k{hex}`, `%v{base64}`, `%d{iso}` change the form; `%h{%k=%v }` gives that of each header.
Escapes: \n \t \r \\ \xNN. An absent key or value is printed as nothing.
"""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from tidelog.client import Read

Part = bytes | Callable[[Read], bytes]
Writer = Callable[[Read], bytes]

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
BYTE_FORMS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
}
NUMBERS: dict[str, Callable[[Read], int]] = {
    "p": lambda read: read.partition,
    "o": lambda read: read.record.offset,
    "e": lambda read: read.leader_epoch,
    "[": lambda read: read.log_start_offset,
    "]": lambda read: read.high_watermark,
    "T": lambda read: len(read.topic.encode()),
    "K": lambda read: len(read.record.key or b""),
    "V": lambda read: len(read.record.value or b""),
    "H": lambda read: len(read.record.headers),
}
TEXTS: dict[str, Callable[[Read], bytes]] = {
    "t": lambda read: read.topic.encode(),
    "k": lambda read: read.record.key or b"",
    "v": lambda read: read.record.value or b"",
}


class Token(NamedTuple):
    """Literal bytes, or a verb and what stands in its braces."""

    literal: bytes
    verb: str = ""
    form: str = ""


class BadFormat(ValueError):  # noqa: N818 - it names what is so
    """The format cannot be understood; the message says where."""


def tokens_of(text: str) -> list[Token]:
    """Literals and verbs in order."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            literal, position = _escape(text, position + 1)
            tokens.append(Token(literal))
        elif char == "%":
            verb = text[position + 1 : position + 2]
            if not verb:
                raise BadFormat("it ends with a single %")
            form, position = _braces(text, position + 2)
            tokens.append(Token(b"%") if verb == "%" else Token(b"", verb, form))
        else:
            tokens.append(Token(char.encode()))
            position += 1
    return tokens


def compile_format(text: str) -> Writer:
    """What prints a record; BadFormat if it cannot."""
    parts = [_part(token) for token in tokens_of(text)]

    def write(read: Read) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(read) for part in parts)

    return write


def _part(token: Token) -> Part:
    verb, form = token.verb, token.form
    if not verb:
        return token.literal
    if verb in NUMBERS:
        number = NUMBERS[verb]
        return lambda read: str(number(read)).encode()
    if verb in TEXTS:
        take, shape = TEXTS[verb], _byte_form(form)
        return lambda read: shape(take(read))
    if verb == "d":
        return _time_part(form)
    if verb == "h":
        return _header_part(form or "%k=%v ")
    raise BadFormat(f"there is no verb %{verb}")


def _byte_form(form: str) -> Callable[[bytes], bytes]:
    if form not in BYTE_FORMS:
        raise BadFormat(f"{{{form}}} is no form of bytes; there are {{hex}} and {{base64}}")
    return BYTE_FORMS[form]


def _time_part(form: str) -> Part:
    if form not in ("", "iso"):
        raise BadFormat(f"{{{form}}} is no form of a time; there is {{iso}}")
    if form == "iso":
        return lambda read: iso_time(read.record.timestamp).encode()
    return lambda read: str(read.record.timestamp).encode()


def _header_part(form: str) -> Part:
    tokens = tokens_of(form)
    for token in tokens:
        if token.verb not in ("", "k", "v"):
            raise BadFormat(f"a header has %k and %v, not %{token.verb}")

    def write(read: Read) -> bytes:
        return b"".join(
            _header_bytes(token, key, value)
            for key, value in read.record.headers
            for token in tokens
        )

    return write


def _header_bytes(token: Token, key: str, value: bytes | None) -> bytes:
    if not token.verb:
        return token.literal
    data = key.encode("utf-8", "surrogateescape") if token.verb == "k" else value or b""
    return _byte_form(token.form)(data)


def iso_time(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _escape(text: str, position: int) -> tuple[bytes, int]:
    letter = text[position : position + 1]
    if letter in ESCAPES and letter:
        return ESCAPES[letter], position + 1
    if letter == "x":
        try:
            return bytes.fromhex(text[position + 1 : position + 3]), position + 3
        except ValueError:
            raise BadFormat("\\x needs two hexadecimal digits") from None
    raise BadFormat(f"\\{letter} is no escape")


def _braces(text: str, position: int) -> tuple[str, int]:
    """What stands between braces right here, if there are any; they may nest."""
    if text[position : position + 1] != "{":
        return "", position
    depth = 0
    for at in range(position, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[position + 1 : at], at + 1
    raise BadFormat("a brace is not closed")
