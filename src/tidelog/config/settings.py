"""The value of every key after all layers were heard, and where it came from."""

from collections.abc import Iterator
from typing import NamedTuple, cast

from tidelog.config.broker_keys import KEYS, LISTENER_PREFIX, find_key, synonyms
from tidelog.config.key_types import BrokerKey, Kind, Status, Value
from tidelog.config.layers import Finding, Gathered, Inputs, Layer, Setting, Source, gather
from tidelog.config.security_keys import PER_LISTENER
from tidelog.config.values import MisfitError, parse_value, show_value

UNSET = Source(Layer.DEFAULT)


class Effective(NamedTuple):
    """The value of a key, and the setting that gave it: perhaps one of a synonym."""

    value: Value
    name: str
    source: Source


_ORDER = {layer: place for place, layer in enumerate(Layer)}


class Settings:
    """Sound settings only; a text that is no value of its key was reported and left out."""

    __slots__ = ("_given", "_of_listeners", "broken")

    def __init__(self) -> None:
        self._given: dict[str, list[tuple[Setting, Value]]] = {}
        self._of_listeners: dict[str, tuple[Setting, Value]] = {}
        """By the whole name: `listener.name.internal.ssl.keystore.location`."""
        self.broken: set[str] = set()
        """Keys with a value that was reported: what follows from them is not worth a word."""

    def add(self, setting: Setting, value: Value) -> None:
        self._given.setdefault(setting.name, []).append((setting, value))

    def add_for_listener(self, setting: Setting, value: Value) -> None:
        """What counts most is added first."""
        self._of_listeners.setdefault(setting.name, (setting, value))

    def of_listener(self, listener: str, name: str) -> tuple[Setting, Value] | None:
        """What was said for this listener alone; the name may begin with that of a mechanism."""
        return self._of_listeners.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}")

    def given(self, name: str) -> list[tuple[Setting, Value]]:
        """Everything said about a key and its synonyms, what counts first."""
        found = [
            pair for each in (name, *synonyms(KEYS[name])) for pair in self._given.get(each, ())
        ]
        return sorted(found, key=lambda pair: _ORDER[pair[0].source.layer])

    def effective(self, name: str) -> Effective:
        key = KEYS[name]
        for setting, value in self.given(name):
            return Effective(
                converted(KEYS[setting.name], key, value), setting.name, setting.source
            )
        for each in (name, *synonyms(key)):
            default = KEYS[each].default
            if default is not None:
                return Effective(converted(KEYS[each], key, default), each, UNSET)
        return Effective(None, name, UNSET)

    def is_set(self, name: str) -> bool:
        return bool(self.given(name))

    def is_broken(self, *names: str) -> bool:
        return any(each in self.broken for name in names for each in (name, *synonyms(KEYS[name])))

    def value(self, name: str) -> Value:
        return self.effective(name).value

    def whole(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int), f"{name} is {value!r}, not a whole number"
        return value

    def number(self, name: str) -> float:
        value = self.value(name)
        assert isinstance(value, float), f"{name} is {value!r}"
        return value

    def millis(self, name: str) -> int:
        return self.whole(name) * KEYS[name].unit_ms

    def flag(self, name: str) -> bool:
        value = self.value(name)
        assert isinstance(value, bool), f"{name} is {value!r}, not true or false"
        return value

    def text(self, name: str) -> str | None:
        value = self.value(name)
        assert value is None or isinstance(value, str), f"{name} is {value!r}, not text"
        return value or None

    def items(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        assert value is None or isinstance(value, tuple), f"{name} is {value!r}, not a list"
        return value or ()

    def finding(self, name: str, why: str, advice: str) -> Finding:
        """About the setting that gave this key its value."""
        _, given_name, source = self.effective(name)
        for setting, _ in self.given(name):
            return Finding(given_name, setting.text, source, why, advice)
        value = self.value(name)
        text = None if value is None else show_value(KEYS[name], value)
        return Finding(name, text, source, why, advice)

    def told(self, name: str) -> str:
        """`replica.lag.time.max.ms=2000 (profile brisk)`"""
        value, _, source = self.effective(name)
        return f"{name}={show_value(KEYS[name], value)} ({source})"


class Resolution(NamedTuple):
    settings: Settings
    problems: list[Finding]
    warnings: list[Finding]
    without_effect: tuple[str, ...]
    """Keys that were set although nothing depends on them."""


def converted(given: BrokerKey, wanted: BrokerKey, value: Value) -> Value:
    """A value of one key as a value of its finer synonym."""
    if given is wanted:
        return value
    if wanted.kind is Kind.DURATION:
        amount = cast(int, value)
        return amount * given.unit_ms // wanted.unit_ms if amount > 0 else amount
    if wanted.kind is Kind.LIST:
        return parse_value(wanted, cast(str, value), with_units=False)
    return value


def resolve(inputs: Inputs) -> Resolution:
    """Every key on its own; `node_config` looks at them together."""
    gathered = gather(inputs)
    result = Resolution(Settings(), gathered.problems, gathered.warnings, ())
    if inputs.file is not None:
        result.warnings.extend(_repeated(inputs))
    idle = set(gathered.only_kafkas)
    for setting in _in_order(gathered):
        key = find_key(setting.name)
        assert key is not None, f"{setting.name} was gathered, but nobody knows it"
        _take(key, setting, result)
        if key.status is Status.NO_EFFECT:
            idle.add(setting.name)
    return result._replace(without_effect=tuple(sorted(idle)))


def _in_order(gathered: Gathered) -> Iterator[Setting]:
    for settings in gathered.settings.values():
        yield from settings


def _take(key: BrokerKey, setting: Setting, result: Resolution) -> None:
    try:
        value = parse_value(key, setting.text, with_units=setting.source.layer is not Layer.FILE)
    except MisfitError as misfit:
        why = f"it must be {misfit.allowed}"
        result.problems.append(Finding(*setting, why, _repair(key)))
        result.settings.broken.add(setting.name)
        return
    if setting.name.startswith(LISTENER_PREFIX):
        if key.name in PER_LISTENER:
            result.settings.add_for_listener(setting, value)
            return
        why = "Tidelog has no settings for one listener alone; this one is ignored"
        result.warnings.append(Finding(*setting, why, f"{key.name}, which holds for all"))
        return
    result.settings.add(setting, value)
    if key.status is Status.UNSUPPORTED and value != key.default:
        if key.refused:
            why = "Tidelog cannot do this, and without it the node would be less safe than asked"
            result.problems.append(Finding(*setting, why, _repair(key)))
        else:
            why = "Tidelog does not support this; it is ignored"
            result.warnings.append(Finding(*setting, why, f"tidelog config explain {key.name}"))


def _repair(key: BrokerKey) -> str:
    if key.default in (None, "", ()):
        return f"tidelog config explain {key.name}" if not key.refused else "remove the line"
    return f"{key.name}={show_value(key, key.default)}, which is the default"


def _repeated(inputs: Inputs) -> Iterator[Finding]:
    assert inputs.file is not None, "only a file can say a thing twice by mistake"
    texts = {entry.line: entry for entry in inputs.file.entries}
    for warning in inputs.file.warnings:
        source = Source(Layer.FILE, f"{warning.file}:{warning.line}")
        entry = texts.get(warning.line)
        name, text = (entry.key, entry.value) if entry else (warning.text.partition(" ")[0], None)
        yield Finding(name, text, source, warning.text, "keep one of the lines")
