"""Requests with drawn content: every field has a value of its kind, and not much sense."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tidelog.wire.protocol.message import Field, Message, Struct

NUMBERS: Final = (-2, -1, 0, 0, 1, 1, 2, 7, 1_000)
LIMITS: Final = {"int8": 2**7 - 1, "int16": 2**15 - 1}
OF_BROKERS: Final = ("replica_id", "replica_state", "broker_id", "broker_epoch", "validate_only")
"""These keep their defaults: nobody keeps a client from claiming to be a broker."""


class Nonsense:
    """Draws messages. Names are taken from those given for a field, or from `words`."""

    __slots__ = ("_entropy", "_names", "_words")

    def __init__(
        self, entropy: Random, words: Sequence[str], names: dict[str, Sequence[Any]]
    ) -> None:
        self._entropy = entropy
        self._words = words
        self._names = names

    def message(self, kind: type[Message], version: int) -> Message:
        return kind(**self._values(kind, version))

    def _values(self, kind: type[Struct], version: int) -> dict[str, Any]:
        return {
            row.name: self._value(row, version)
            for row in kind.__fields__
            if version in row.versions and row.name not in OF_BROKERS
        }

    def _value(self, row: Field, version: int) -> Any:
        entropy = self._entropy
        if version in row.nullable and entropy.random() < 0.2:
            return None
        if row.is_array:
            return [self._one(row, version) for _ in range(entropy.choice((0, 1, 1, 2)))]
        return self._one(row, version)

    def _one(self, row: Field, version: int) -> Any:
        entropy = self._entropy
        if not isinstance(row.kind, str):
            return row.kind(**self._values(row.kind, version))
        if row.name in self._names:
            return entropy.choice(self._names[row.name])
        match row.kind:
            case "bool":
                return entropy.random() < 0.5
            case "string":
                return entropy.choice(self._words)
            case "uuid":
                return entropy.randbytes(16)
            case "bytes" | "records":
                return entropy.randbytes(entropy.choice((0, 3, 70)))
            case "float64":
                return entropy.random()
        number = entropy.choice(NUMBERS)
        return (
            max(0, number)
            if row.kind.startswith("u")
            else min(number, LIMITS.get(row.kind, number))
        )
