"""From the text of a setting to its value, and back.

Files hold plain numbers, as Kafka wants them. Where only Tidelog reads (`-X`, the environment,
profiles) `30s` and `1MiB` are understood too.
"""

from math import isfinite
from typing import TypeVar

from tidelog.config.key_types import BrokerKey, Kind, Value
from tidelog.config.quantities import (
    parse_duration_ms,
    parse_size_bytes,
    show_duration,
    show_size,
)
from tidelog.core.metadata.topic_configs import (
    BOOLEANS,
    DECIMAL_NUMBER,
    INT32_MAX,
    INT64_MAX,
    WHOLE_NUMBER,
    split_list,
)

HIDDEN = "[hidden]"

Number = TypeVar("Number", int, float)

NUMBERS = frozenset((Kind.INT, Kind.LONG, Kind.DURATION, Kind.BYTES))


class MisfitError(ValueError):
    """The text is no value of the key; `allowed` says what would be."""

    def __init__(self, allowed: str) -> None:
        super().__init__(allowed)
        self.allowed = allowed


def parse_value(key: BrokerKey, text: str, *, with_units: bool) -> Value:
    text = text.strip()
    if key.kind in NUMBERS:
        return _limited(key, _whole(key, text, with_units=with_units))
    match key.kind:
        case Kind.DOUBLE:
            plain = text.lower().replace("e+", "e")
            if DECIMAL_NUMBER.fullmatch(plain) is None or not isfinite(float(plain)):
                raise MisfitError(allowed(key))
            return _limited(key, float(plain))
        case Kind.BOOL:
            if text.lower() not in BOOLEANS:
                raise MisfitError(allowed(key))
            return BOOLEANS[text.lower()]
        case Kind.LIST:
            items = tuple(item for item in split_list(text) if item)
            repeated = len(dict.fromkeys(items)) < len(items)
            if repeated or any(item not in key.choices for item in items if key.choices):
                raise MisfitError(allowed(key))
            return items
        case _:
            if key.choices and text not in key.choices:
                raise MisfitError(allowed(key))
            return text


def allowed(key: BrokerKey) -> str:
    """What a value of this key looks like: `a whole number of ms, at least 1`."""
    if key.kind is Kind.BOOL:
        return "true or false"
    if key.choices:
        lead = "different ones of" if key.kind is Kind.LIST else "one of"
        return f"{lead} {', '.join(key.choices)}"
    if key.kind is Kind.LIST:
        return "different items, separated by commas"
    if key.kind is Kind.DOUBLE or key.kind in NUMBERS:
        noun = "a number" if key.kind is Kind.DOUBLE else "a whole number"
        unit = f" of {key.unit}" if key.unit else ""
        return f"{noun}{unit}{_limits(key)}"
    return "text"


def show_value(key: BrokerKey, value: Value) -> str:
    """As it could stand in a file; secrets are not shown."""
    if value is None:
        return "not set"
    if key.kind is Kind.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def explain_number(key: BrokerKey, value: Value) -> str | None:
    """`9 s` for 9000, `100 MiB` for 104857600; None where it would say nothing new."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if value in (INT32_MAX, INT64_MAX):
        return "no limit"
    if value <= 0:
        return None
    if key.kind is Kind.DURATION:
        shown = show_duration(value * key.unit_ms)
        return None if shown == f"{value} {key.unit}" else shown
    if key.kind is Kind.BYTES:
        shown = show_size(value)
        return None if shown == f"{value} B" else shown
    return None


def _whole(key: BrokerKey, text: str, *, with_units: bool) -> int:
    if WHOLE_NUMBER.fullmatch(text) is not None:
        return int(text)
    if not with_units or key.kind not in (Kind.DURATION, Kind.BYTES):
        raise MisfitError(allowed(key))
    try:
        if key.kind is Kind.BYTES:
            return parse_size_bytes(text)
        whole, rest = divmod(parse_duration_ms(text), key.unit_ms)
    except ValueError as reason:
        raise MisfitError(f"{allowed(key)}, or with a unit; {reason}") from None
    if rest:
        raise MisfitError(allowed(key))
    return whole


def _limited(key: BrokerKey, number: Number) -> Number:
    too_small = key.at_least is not None and number < key.at_least
    too_large = key.at_most is not None and number > key.at_most
    if too_small or too_large:
        raise MisfitError(allowed(key))
    return number


def _limits(key: BrokerKey) -> str:
    """The limits of 64 bits go without saying."""
    least = None if key.at_least == -1 - INT64_MAX else key.at_least
    most = None if key.at_most == INT64_MAX else key.at_most
    if least is None:
        return "" if most is None else f", at most {most}"
    return f", at least {least}" if most is None else f", from {least} to {most}"
