"""Keys and values of internal topics: a number in front says how to read the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.wire.protocol import Message, ProtocolError, decode, encode
from tidelog.wire.records import InvalidRecord

NUMBER_BYTES = 2
KEY_VERSION = 0


class Form(NamedTuple):
    """How one kind of record is written and read."""

    kind: int
    key: type[Message]
    value: type[Message]
    version: int
    """In which values are written; older ones are read too."""
    to_key: Callable[[Any], Message]  # Any: each takes the one type it is filed under
    to_value: Callable[[Any], Message | None]
    from_wire: Callable[[Any, Any], object]


class Forms:
    """The `RecordCodec` of one internal topic."""

    __slots__ = ("_by_kind", "_by_type")

    def __init__(self, forms: dict[type, Form], aliases: dict[int, int] | None = None) -> None:
        self._by_type = forms
        self._by_kind = {form.kind: form for form in forms.values()}
        for alias, kind in (aliases or {}).items():
            self._by_kind[alias] = self._by_kind[kind]

    def encode(self, record: object) -> tuple[bytes, bytes | None]:
        form = self._by_type[type(record)]
        key = _number(form.kind) + encode(form.to_key(record), KEY_VERSION)
        value = form.to_value(record)
        if value is None:
            return key, None
        return key, _number(form.version) + encode(value, form.version)

    def decode(self, key: bytes, value: bytes | None) -> object | None:
        """None for a kind that we do not know; InvalidRecord for one that cannot be read."""
        kind = int.from_bytes(key[:NUMBER_BYTES], "big", signed=True)
        form = self._by_kind.get(kind)
        if form is None or len(key) < NUMBER_BYTES:
            return None
        try:
            read_key = decode(form.key, KEY_VERSION, key, NUMBER_BYTES)
            return form.from_wire(read_key, self._read_value(form, value))
        except ProtocolError as reason:
            raise InvalidRecord(f"{form.key.__name__}: {reason}") from reason

    @staticmethod
    def _read_value(form: Form, value: bytes | None) -> Message | None:
        if value is None:
            return None
        version = int.from_bytes(value[:NUMBER_BYTES], "big", signed=True)
        return decode(form.value, version, value, NUMBER_BYTES)


def _number(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big", signed=True)
