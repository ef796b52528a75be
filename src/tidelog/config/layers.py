"""Where settings come from, and which of them counts.

`-X` on the command line counts more than the environment, that more than a profile, that more
than the file, and all of them more than a default. This also holds between synonyms: `-X
log.retention.hours=1` counts more than `log.retention.ms` in the file. Within one layer the
finer name counts, as in Kafka.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from tidelog.config import kafka_keys
from tidelog.config.broker_keys import KEYS, find_key, nearest_name
from tidelog.config.key_types import Kind
from tidelog.config.profiles import PROFILES
from tidelog.config.properties import Properties
from tidelog.config.values import HIDDEN

ENVIRONMENT_PREFIX = "TIDELOG_"


class Layer(StrEnum):
    """In the order of what counts."""

    OVERRIDE = "override"
    ENVIRONMENT = "environment"
    PROFILE = "profile"
    FILE = "file"
    DEFAULT = "default"


class Source(NamedTuple):
    layer: Layer
    where: str = ""
    """`server.properties:12`, the variable's name, the profile's name."""

    def __str__(self) -> str:
        match self.layer:
            case Layer.FILE:
                return self.where
            case Layer.OVERRIDE:
                return "-X"
            case Layer.DEFAULT:
                return "default"
            case _:
                return f"{self.layer} {self.where}"


class Setting(NamedTuple):
    """What one place says about one key."""

    name: str
    text: str
    source: Source


class Finding(NamedTuple):
    """Something wrong or doubtful: where it stands, why it is wrong, what to do."""

    name: str
    text: str | None
    """None: it is not set."""
    source: Source
    why: str
    advice: str

    def __str__(self) -> str:
        what = self.name if self.text is None else f"{self.name}={shown_text(self.name, self.text)}"
        place = "" if self.source.layer is Layer.DEFAULT else f"{self.source}: "
        return f"{place}{what}\n  why: {self.why}\n  try: {self.advice}"


class Inputs(NamedTuple):
    """All that an operator said."""

    file: Properties | None = None
    profile: str | None = None
    environment: Mapping[str, str] = {}
    overrides: Sequence[str] = ()
    """`key=value`, as after `-X`."""


class Gathered(NamedTuple):
    settings: dict[str, list[Setting]]
    """Known keys; for each of them what counts most comes first."""
    problems: list[Finding]
    warnings: list[Finding]
    only_kafkas: set[str]
    """Keys that mean something to Kafka and nothing here."""


def gather(inputs: Inputs) -> Gathered:
    gathered = Gathered({}, [], [], set())
    layers = (_overrides(inputs, gathered), _environment(inputs), _profile(inputs), _file(inputs))
    unknown: dict[str, Setting] = {}
    for layer in layers:
        # The last word of a layer counts: `-X a=1 -X a=2` means 2.
        latest = {setting.name: setting for setting in layer}
        for name, setting in latest.items():
            if find_key(name) is not None:
                gathered.settings.setdefault(name, []).append(setting)
            elif name in kafka_keys.ALL:
                gathered.only_kafkas.add(name)
            else:
                unknown.setdefault(name, setting)
    gathered.warnings.extend(unknown_name(setting) for setting in unknown.values())
    return gathered


def environment_name(name: str) -> str:
    """`TIDELOG_NODE_ID` for `node.id`."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def unknown_name(setting: Setting) -> Finding:
    near = nearest_name(setting.name)
    if near is None:
        advice = "remove it, or see the names in `tidelog config list`"
    elif setting.source.layer is Layer.ENVIRONMENT:
        advice = f"{environment_name(near)}, if that was meant"
    else:
        advice = f"{near}, if that was meant"
    why = "no such key; it has no effect"
    return Finding(setting.name, setting.text, setting.source, why, advice)


def shown_text(name: str, text: str) -> str:
    """Secrets stay hidden, also under a name that is only nearly right."""
    key = find_key(name) or KEYS.get(nearest_name(name) or "")
    is_secret = name in kafka_keys.SECRET or (key is not None and key.kind is Kind.PASSWORD)
    return HIDDEN if is_secret else text


def _overrides(inputs: Inputs, gathered: Gathered) -> Iterator[Setting]:
    source = Source(Layer.OVERRIDE)
    for text in inputs.overrides:
        name, equals, value = text.partition("=")
        if equals and name.strip():
            yield Setting(name.strip(), value, source)
        else:
            finding = Finding(text, None, source, "there is no key=value", "-X node.id=1")
            gathered.problems.append(finding)


def _environment(inputs: Inputs) -> Iterator[Setting]:
    known = {environment_name(name): name for name in KEYS}
    for variable, text in sorted(inputs.environment.items()):
        if variable.startswith(ENVIRONMENT_PREFIX):
            spelled = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            source = Source(Layer.ENVIRONMENT, variable)
            yield Setting(known.get(variable, spelled), text, source)


def _profile(inputs: Inputs) -> Iterator[Setting]:
    if inputs.profile is not None:
        source = Source(Layer.PROFILE, inputs.profile)
        for name, text in PROFILES[inputs.profile].items():
            yield Setting(name, text, source)


def _file(inputs: Inputs) -> Iterator[Setting]:
    if inputs.file is not None:
        for entry in inputs.file.entries:
            source = Source(Layer.FILE, f"{inputs.file.file}:{entry.line}")
            yield Setting(entry.key, entry.value, source)
