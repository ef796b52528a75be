r"""Java's `.properties` files: read as Java reads them, written so that Java reads them back.

A logical line is a key, a separator (`=`, `:` or white space) and a value. `#` or `!` as the
first character makes a comment; a line that ends with an odd number of backslashes goes on in
the next one, without that one's leading white space. `\n`, `\t`, `\r`, `\f` and `\uXXXX` are
escapes; a backslash before anything else is dropped.

Two things are ours. A key that comes twice still counts as the last one says, but with a warning.
A key without a name is refused: nobody means that.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

BLANK = " \t\f"
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
ESCAPED = {char: f"\\{letter}" for letter, char in ESCAPES.items()} | {"\\": "\\\\"}
KEY_ENDS = "=:" + BLANK
LINE_END = re.compile(r"\r\n|\n|\r")
FOUR_HEX = re.compile(r"[0-9a-fA-F]{4}")


class Property(NamedTuple):
    key: str
    value: str
    line: int
    """The first line of it, counted from 1."""


class LineFinding(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class Properties(NamedTuple):
    file: str
    entries: tuple[Property, ...]
    """Each key once, in the order of the lines that count."""
    warnings: tuple[LineFinding, ...] = ()


class PropertiesError(Exception):
    """The file cannot be read; says every place where."""

    def __init__(self, findings: tuple[LineFinding, ...]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


def parse_properties(text: str, file: str) -> Properties:
    """`file` is only a name, for messages."""
    latest: dict[str, Property] = {}
    warnings: list[LineFinding] = []
    errors: list[LineFinding] = []
    for number, line in logical_lines(text):
        key_text, value_text = split_key(line)
        try:
            key, value = unescape(key_text), unescape(value_text)
        except ValueError as reason:
            errors.append(LineFinding(file, number, str(reason)))
            continue
        if not key:
            errors.append(LineFinding(file, number, "there is no key before the separator"))
            continue
        earlier = latest.pop(key, None)
        if earlier is not None:
            warning = f"{key} stands in line {earlier.line} already; this line counts"
            warnings.append(LineFinding(file, number, warning))
        latest[key] = Property(key, value, number)
    if errors:
        raise PropertiesError(tuple(errors))
    return Properties(file, tuple(latest.values()), tuple(warnings))


def write_properties(values: Mapping[str, str]) -> str:
    """One line per key, in the order given, in ASCII so that no encoding can hurt it."""
    return "".join(f"{escape_key(key)}={escape_value(value)}\n" for key, value in values.items())


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, the line without leading white space), no comments."""
    first, joined, open_ended = 0, "", False
    for number, natural in enumerate(LINE_END.split(text), 1):
        line = natural.lstrip(BLANK)
        if not open_ended:
            if not line or line[0] in "#!":
                continue
            first, joined = number, ""
        open_ended = goes_on(line)
        joined += line[:-1] if open_ended else line
        if joined and not open_ended:
            yield first, joined
    if open_ended and joined:
        yield first, joined


def goes_on(line: str) -> bool:
    """Two backslashes at the end are one that was escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def split_key(line: str) -> tuple[str, str]:
    """Key and value, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in KEY_ENDS:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(BLANK)
    return line[:end], value


def unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            parts.append(char)
            continue
        letter = text[at : at + 1]
        at += 1
        if letter == "u":
            digits = text[at : at + 4]
            if FOUR_HEX.fullmatch(digits) is None:
                raise ValueError(f"\\u{digits} is not \\u and four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            at += 4
        else:
            parts.append(ESCAPES.get(letter, letter))
    return _pair_surrogates("".join(parts))


def escape_key(key: str) -> str:
    assert key, "a property needs a key"
    return "".join(f"\\{char}" if char in "=: #!" else _escape_char(char) for char in key)


def escape_value(value: str) -> str:
    """White space counts only at the beginning, where it would be taken for the separator."""
    escaped = "".join(map(_escape_char, value))
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _escape_char(char: str) -> str:
    if char in ESCAPED:
        return ESCAPED[char]
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _pair_surrogates(text: str) -> str:
    """Java counts characters beyond U+FFFF as two."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("half of a character: \\uD800 to \\uDFFF come in pairs") from None
