"""`tidelog config check`: everything that is wrong with a file, at once."""

from collections.abc import Sequence

import click

from tidelog.cli import session
from tidelog.cli.config.inputs import gather_inputs, layer_options
from tidelog.cli.failure import OK, USAGE
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.config.layers import Finding, Layer, Source, shown_text
from tidelog.config.node_config import Loaded, load_node_config
from tidelog.config.properties import PropertiesError


@click.command(name="check")
@click.argument("file")
@layer_options
@output_option
@shared_options
@click.pass_context
def command(
    context: click.Context,
    file: str,
    profile: str | None,
    overrides: tuple[str, ...],
    output: str,
) -> None:
    """Say everything that is wrong or doubtful in FILE.

    \b
    Examples:
      tidelog config check server.properties
      tidelog config check server.properties --profile brisk -X node.id=2

    Ends with exit code 2 if a node would not start with it.
    """
    try:
        loaded = load_node_config(gather_inputs(file, profile, overrides))
    except PropertiesError as reason:
        loaded = unreadable(reason)
    if output == "json":
        print_json(as_document(file, loaded))
    else:
        print_findings("error", loaded.problems)
        print_findings("warning", loaded.warnings)
        if loaded.without_effect:
            click.echo(f"without effect in Tidelog: {', '.join(loaded.without_effect)}")
        click.echo(f"{file}: {verdict(loaded)}")
    context.exit(USAGE if loaded.problems else OK)


def unreadable(reason: PropertiesError) -> Loaded:
    problems = tuple(
        Finding(
            "line",
            None,
            Source(Layer.FILE, f"{finding.file}:{finding.line}"),
            finding.text,
            "key=value, and \\\\ for a backslash",
        )
        for finding in reason.findings
    )
    return Loaded(None, problems, (), ())


def print_findings(kind: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        colour = "red" if kind == "error" else "yellow"
        click.echo(f"{session.current().styled(kind, colour)}: {finding}")


def verdict(loaded: Loaded) -> str:
    counts = [
        plural(len(found), noun)
        for found, noun in ((loaded.problems, "problem"), (loaded.warnings, "warning"))
        if found
    ]
    if loaded.config is not None:
        who = f"node {loaded.config.node_id}, {' and '.join(loaded.config.roles)}"
        return " · ".join(["sound", who, f"acknowledged is {loaded.config.durability}", *counts])
    return " · ".join(counts)


def as_document(file: str, loaded: Loaded) -> dict[str, object]:
    return {
        "file": file,
        "sound": not loaded.problems,
        "problems": [as_fields(finding) for finding in loaded.problems],
        "warnings": [as_fields(finding) for finding in loaded.warnings],
        "without_effect": list(loaded.without_effect),
    }


def as_fields(finding: Finding) -> dict[str, object]:
    text = finding.text
    return {
        "key": finding.name,
        "value": None if text is None else shown_text(finding.name, text),
        "source": str(finding.source),
        "why": finding.why,
        "try": finding.advice,
    }
