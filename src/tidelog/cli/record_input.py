"""Records that come in as text: a line each, by format or as json."""

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from tidelog.cli.record_format import BadFormat, tokens_of
from tidelog.client import NewRecord, Read
from tidelog.client.producer import NO_TIME

Reader = Callable[[bytes], NewRecord]

VERBS = {"k": "key", "v": "value", "p": "partition", "d": "timestamp"}


class BadRecord(ValueError):  # noqa: N818 - it names what is so
    """A line is no record of the kind that was announced."""


def line_reader(key: str | None, partition: int | None) -> Reader:
    """The line is the value."""
    fixed_key = None if key is None else key.encode()
    return lambda line: NewRecord(line, fixed_key, partition=partition)


def format_reader(text: str, key: str | None, partition: int | None) -> Reader:
    """`%k:%v`: literals must be there, the last verb takes the rest."""
    pattern = re.compile(_pattern(text), re.DOTALL)
    fixed_key = None if key is None else key.encode()

    def read(line: bytes) -> NewRecord:
        match = pattern.fullmatch(line)
        if match is None:
            raise BadRecord(f"{line[:60]!r} does not look like {text!r}")
        found = match.groupdict()
        number = found.get("partition")
        time = found.get("timestamp")
        return NewRecord(
            found.get("value"),
            found.get("key", fixed_key),
            timestamp_ms=NO_TIME if time is None else int(time),
            partition=partition if number is None else int(number),
        )

    return read


def _pattern(text: str) -> bytes:
    tokens = tokens_of(text.removesuffix("\\n"))
    verbs = [token.verb for token in tokens if token.verb]
    for verb in verbs:
        if verb not in VERBS:
            raise BadFormat(f"records are read with %k, %v, %p and %d, not with %{verb}")
        if verbs.count(verb) > 1:
            raise BadFormat(f"%{verb} is there twice")
    parts = []
    for token in tokens:
        if not token.verb:
            parts.append(re.escape(token.literal))
            continue
        content = b"[0-9]+" if token.verb in "pd" else b".*"
        greedy = b"" if token.verb in "pd" or token.verb == verbs[-1] else b"?"
        parts.append(b"(?P<%b>%b%b)" % (VERBS[token.verb].encode(), content, greedy))
    return b"".join(parts)


def as_json(read: Read) -> str:
    """One line from which the same record can be made again."""
    record = read.record
    document = {
        "topic": read.topic,
        "partition": read.partition,
        "offset": record.offset,
        "leader_epoch": read.leader_epoch,
        "timestamp": record.timestamp,
        "key": as_text(record.key),
        "value": as_text(record.value),
        "headers": [{"key": key, "value": as_text(value)} for key, value in record.headers],
    }
    text = json.dumps(document, ensure_ascii=False)
    return text if text.isascii() or _is_unicode(text) else json.dumps(document)


def json_reader(key: str | None, partition: int | None) -> Reader:
    """What `consume --json` prints; only a value is needed."""
    fixed_key = None if key is None else key.encode()

    def read(line: bytes) -> NewRecord:
        try:
            document = json.loads(line)
        except ValueError as reason:
            raise BadRecord(f"{line[:60]!r} is no json: {reason}") from None
        if not isinstance(document, dict):
            raise BadRecord(f"{line[:60]!r} is no json object")
        try:
            return _record_of(document, fixed_key, partition)
        except (KeyError, TypeError, ValueError, AttributeError) as reason:
            raise BadRecord(f"{line[:60]!r} is no record: {reason}") from None

    return read


def _record_of(document: dict[str, Any], key: bytes | None, partition: int | None) -> NewRecord:
    headers = tuple(
        (str(each["key"]), as_bytes(each["value"])) for each in document.get("headers") or ()
    )
    place = document.get("partition") if partition is None else partition
    return NewRecord(
        as_bytes(document["value"]),
        as_bytes(document["key"]) if "key" in document else key,
        headers,
        int(document.get("timestamp", NO_TIME)),
        None if place is None else int(place),
    )


def as_text(data: bytes | None) -> str | dict[str, str] | None:
    """Text if it is text, base64 in an object if it is not."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def as_bytes(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode("utf-8")
        case {"base64": str(text)}:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:
                raise ValueError(f"{text[:40]!r} is no base64") from None
        case _:
            return json.dumps(value, ensure_ascii=False).encode()


def _is_unicode(text: str) -> bool:
    """False for header keys that are no UTF-8: they would not survive the way out."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
