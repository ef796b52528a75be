"""`tidelog config list`: every key that Tidelog knows."""

from collections.abc import Iterator

import click

from tidelog.cli.config.explain import default_of, describe, shown
from tidelog.cli.lazy import shared_options
from tidelog.cli.output import print_json, table
from tidelog.config.broker_keys import SECTIONS, synonyms
from tidelog.config.key_types import STATUS_MEANINGS, BrokerKey, Status
from tidelog.config.profiles import PROFILES
from tidelog.config.values import allowed

Section = tuple[str, list[BrokerKey]]

INTRODUCTION = """\
# Configuration

Made by `tidelog config list -o markdown`; a test keeps it up to date.

A node is configured with Kafka's names: a `server.properties` works as it is. What counts more
comes first: `-X key=value` on the command line, the environment (`TIDELOG_NODE_ID` for `node.id`),
a profile, the file, the default. Defaults are those of Kafka 4, with one exception: there is no
default for `log.dirs`. Files hold plain numbers, as for Kafka; `-X` and the environment also
understand `30s` and `1MiB`.

`tidelog config check FILE` says all that is wrong with a file, `tidelog config explain KEY` what a
key is set to and by whom. The columns: *live* keys can change while a node runs; *topic* is the
name of the topic setting for which the key is the default. Keys of Kafka 4.3 that are not in these
tables (share groups, remote storage, SASL and the like) are accepted and have no effect; `config
check` names them. The status is one of these:
"""


@click.command(name="list")
@click.option(
    "--status", type=click.Choice([status.value for status in Status]), help="Only these keys."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print the result.",
)
@shared_options
def command(status: str | None, output: str) -> None:
    """List the keys, with default and status.

    \b
    Examples:
      tidelog config list
      tidelog config list --status unsupported -o json
      tidelog config list -o markdown > docs/configuration.md
    """
    sections = chosen(status)
    if output == "json":
        print_json([{"key": key.name, **describe(key)} for _, keys in sections for key in keys])
    elif output == "markdown":
        click.echo("\n".join(markdown(sections)))
    else:
        rows = [
            [key.name, shown(key, default_of(key)), key.status.value]
            for _, keys in sections
            for key in keys
        ]
        table(["KEY", "DEFAULT", "STATUS"], rows)


def chosen(status: str | None) -> list[Section]:
    sections = [
        (title, [key for key in keys if status in (None, key.status.value)])
        for title, keys in SECTIONS
    ]
    return [(title, keys) for title, keys in sections if keys]


def markdown(sections: list[Section]) -> Iterator[str]:
    yield INTRODUCTION
    for status, meaning in STATUS_MEANINGS.items():
        yield f"- `{status.value}`: {meaning}."
    yield ""
    yield "## Profiles"
    for name, values in PROFILES.items():
        settings = ", ".join(f"`{key}={value}`" for key, value in values.items())
        yield f"\n`{name}`: {settings}."
    for title, keys in sections:
        yield f"\n## {title}\n"
        yield "| key | default | allowed | status | live | topic | meaning |"
        yield "|---|---|---|---|---|---|---|"
        yield from map(markdown_row, keys)


def markdown_row(key: BrokerKey) -> str:
    also = f" Falls back to `{synonyms(key)[0]}`." if synonyms(key) else ""
    topic = f"`{key.topic_name}`" if key.topic_name else ""
    cells = [
        f"`{key.name}`",
        shown(key, default_of(key)),
        allowed(key),
        key.status.value,
        "yes" if key.live else "",
        topic,
        f"{key.meaning}{also}",
    ]
    return f"| {' | '.join(cells)} |"
