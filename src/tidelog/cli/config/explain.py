"""`tidelog config explain`: one key."""

import click

from tidelog.cli.config.inputs import gather_inputs, layer_options
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.config.broker_keys import (
    BROKER_NAMES_OF_TOPIC_CONFIGS,
    KEYS,
    nearest_name,
    synonyms,
)
from tidelog.config.key_types import STATUS_MEANINGS, BrokerKey, Kind, Value
from tidelog.config.layers import Inputs, Layer
from tidelog.config.properties import PropertiesError
from tidelog.config.settings import Effective, Settings, resolve
from tidelog.config.values import HIDDEN, allowed, explain_number, show_value


def complete_key(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    return [name for name in KEYS if name.startswith(start)]


@click.command(name="explain")
@click.argument("key", shell_complete=complete_key)
@click.option("--config", "file", metavar="FILE", help="The server.properties of the node.")
@layer_options
@output_option
@shared_options
def command(
    key: str, file: str | None, profile: str | None, overrides: tuple[str, ...], output: str
) -> None:
    """Say what KEY is set to, by whom, what it may be and what it does.

    \b
    Examples:
      tidelog config explain broker.session.timeout.ms
      tidelog config explain log.retention.ms --config server.properties
    """
    known = find(key)
    try:
        inputs = gather_inputs(file, profile, overrides)
    except PropertiesError as reason:
        first = reason.findings[0]
        raise CommandError(
            f"cannot read {first.file}",
            why=f"line {first.line}: {first.text}",
            advice=f"tidelog config check {first.file}",
            code=USAGE,
        ) from None
    settings = sound_settings(known, inputs)
    effective = settings.effective(known.name)
    if output == "json":
        print_json(as_document(known, settings, effective))
        return
    click.echo(f"{known.name} = {shown(known, effective.value)}")
    for label, text in lines(known, settings, effective):
        click.echo(f"  {label:<9}  {text}")


def find(name: str) -> BrokerKey:
    if name in KEYS:
        return KEYS[name]
    near = nearest_name(name)
    if name in BROKER_NAMES_OF_TOPIC_CONFIGS:
        why = f"it is a setting of topics; {near} is its default for all of them"
    else:
        why = f'did you mean "{near}"?' if near else "no known key is spelled much like it"
    raise CommandError(
        f'no key "{name}"',
        why=why,
        advice=f"tidelog config explain {near}" if near else "tidelog config list",
        code=USAGE,
    )


def sound_settings(key: BrokerKey, inputs: Inputs) -> Settings:
    """A wrong value of another key is not our business here; of this one it is."""
    resolution = resolve(inputs)
    for problem in resolution.problems:
        if problem.name in (key.name, *synonyms(key)):
            value = hidden(key, problem.text or "")
            what = f"{problem.source}: {problem.name}={value}"
            raise CommandError(what, why=problem.why, advice=problem.advice, code=USAGE)
    return resolution.settings


def lines(key: BrokerKey, settings: Settings, effective: Effective) -> list[tuple[str, str]]:
    """(label, text)"""
    by_name = f", as {effective.name}" if effective.name != key.name else ""
    told = [
        ("source", f"{effective.source}{by_name}"),
        ("default", shown(key, default_of(key))),
        ("type", f"{key.kind}: {allowed(key)}"),
        ("live", "yes" if key.live else "no, the node has to be restarted"),
        ("status", f"{key.status}: {STATUS_MEANINGS[key.status]}"),
        ("meaning", key.meaning),
    ]
    told += [
        ("overruled", f"{setting.name}={hidden(key, setting.text)}, {setting.source}")
        for setting, _ in settings.given(key.name)[1:]
    ]
    if key.topic_name is not None:
        told.append(("topics", f"can have their own, called {key.topic_name}"))
    if synonyms(key):
        told.append(("also", f"{', '.join(synonyms(key))}, if it is not set itself"))
    if key.ours:
        told.append(("origin", "Tidelog's own; Kafka does not know it"))
    return told


def as_document(key: BrokerKey, settings: Settings, effective: Effective) -> dict[str, object]:
    return {
        "key": key.name,
        "value": plain(key, effective.value),
        "source": {
            "layer": effective.source.layer.value,
            "where": effective.source.where,
            "name": effective.name,
        },
        "overruled": [
            {
                "name": setting.name,
                "value": hidden(key, setting.text),
                "source": str(setting.source),
            }
            for setting, _ in settings.given(key.name)[1:]
        ],
        **describe(key),
    }


def describe(key: BrokerKey) -> dict[str, object]:
    """What holds for a key whatever it is set to."""
    return {
        "default": plain(key, default_of(key)),
        "type": key.kind.value,
        "unit": key.unit,
        "allowed": allowed(key),
        "at_least": key.at_least,
        "at_most": key.at_most,
        "choices": list(key.choices),
        "live": key.live,
        "status": key.status.value,
        "meaning": key.meaning,
        "topic_name": key.topic_name,
        "synonyms": list(synonyms(key)),
        "origin": "tidelog" if key.ours else "kafka",
    }


def default_of(key: BrokerKey) -> Value:
    """Its own or that of its synonyms."""
    effective = Settings().effective(key.name)
    assert effective.source.layer is Layer.DEFAULT, f"{key.name} is set by {effective.source}"
    return effective.value


def shown(key: BrokerKey, value: Value) -> str:
    """`9000 (9 s)`"""
    text = show_value(key, value) or "empty"
    explained = explain_number(key, value)
    return f"{text} ({explained})" if explained else text


def plain(key: BrokerKey, value: Value) -> object:
    if key.kind is Kind.PASSWORD and value is not None:
        return HIDDEN
    return list(value) if isinstance(value, tuple) else value


def hidden(key: BrokerKey, text: str) -> str:
    return HIDDEN if key.kind is Kind.PASSWORD else text
