"""`tidelog format`: make the directories of a node its own, before its first start."""

from pathlib import Path

import click

from tidelog.cli.config.inputs import layer_options
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.node import load_config
from tidelog.cli.output import print_json


@click.command(name="format")
@click.option("--config", "file", metavar="FILE", required=True, help="A server.properties.")
@click.option(
    "--cluster-id", metavar="ID", help="The same for every node; made up for a node alone."
)
@click.option(
    "--add-scram",
    "users",
    metavar="USER",
    multiple=True,
    help="SCRAM-SHA-512=[name=NAME,password=PASSWORD]: a user of the new cluster. Repeatable. "
    "@FILE reads one user per line: other users of the machine see no password.",
)
@layer_options
@output_option
@shared_options
def command(
    *,
    file: str,
    cluster_id: str | None,
    users: tuple[str, ...],
    profile: str | None,
    overrides: tuple[str, ...],
    output: str,
) -> None:
    """Write meta.properties into every log directory of a node. A second run changes nothing.

    \b
    Examples:
      tidelog format --config server.properties --cluster-id orders-prod
      tidelog format --config single.properties
      tidelog format --config single.properties \\
        --add-scram 'SCRAM-SHA-512=[name=admin,password=SECRET]'
    """
    config = load_config(file, profile, overrides)
    from tidelog.host.entropy import SystemEntropy
    from tidelog.host.filesystem import SystemFilesystem
    from tidelog.node import formatting

    try:
        done = formatting.format_node(
            config, cluster_id, SystemFilesystem(), SystemEntropy(), users=from_files(users)
        )
    except formatting.NeedsClusterId as reason:
        fresh = formatting.fresh_cluster_id(SystemEntropy())
        raise CommandError(
            f"node {config.node_id} needs a cluster id",
            why=str(reason),
            advice=f"on every node: tidelog format --config {file} --cluster-id {fresh}",
            code=USAGE,
        ) from None
    except formatting.CannotFormat as reason:
        raise CommandError(
            f"nothing was formatted for node {config.node_id}",
            why=str(reason),
            advice="another log.dirs, node.id or --cluster-id; an empty directory is fine",
        ) from None
    if output == "json":
        print_json(
            {
                "cluster_id": done.cluster_id,
                "node_id": config.node_id,
                "formatted": list(done.new),
                "known": list(done.known),
            }
        )
        return
    for path in done.new:
        click.echo(f"{path} formatted: node {config.node_id}, cluster {done.cluster_id}")
    for path in done.known:
        click.echo(f"{path} was formatted already: nothing changed")


def from_files(users: tuple[str, ...]) -> list[str]:
    """Users as they are given, and those in files that are named by `@FILE`."""
    found: list[str] = []
    for text in users:
        if not text.startswith("@"):
            found.append(text)
            continue
        try:
            lines = Path(text[1:]).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as reason:
            raise CommandError(
                f"{text[1:]} cannot be read",
                why=str(getattr(reason, "strerror", None) or reason).lower(),
                advice="a file with lines like SCRAM-SHA-512=[name=NAME,password=PASSWORD]",
                code=USAGE,
            ) from None
        found += filter(None, map(str.strip, lines))
    return found
