"""`tidelog secure rotate`: new keys and certificates, by the same authority."""

from pathlib import Path

import click

from tidelog.cli.failure import CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.secure.places import existing_home, home_option
from tidelog.secure.certificate_facts import hosts_of
from tidelog.secure.issuing import issue_to_node


@click.command(name="rotate")
@click.option("--node", "nodes", type=int, multiple=True, metavar="ID", help="Only these nodes.")
@home_option
@output_option
@shared_options
def command(*, nodes: tuple[int, ...], directory: Path, output: str) -> None:
    """Replace the keys and certificates of nodes. Clients trust the same authority as before.

    A node that reads its files from here takes the new ones without a restart.

    \b
    Examples:
      tidelog secure rotate
      tidelog secure rotate --node 2
    """
    home = existing_home(directory)
    known = home.node_ids()
    missing = [each for each in nodes if each not in known]
    if missing:
        raise CommandError(
            f"{directory} has no certificate of node {missing[0]}",
            why=f"it has those of {', '.join(map(str, known)) or 'nobody'}",
            advice="tidelog secure init makes them",
        )
    replaced = []
    for node_id in nodes or known:
        old = home.node_files(node_id).bundle.read_bytes()
        replaced.append(issue_to_node(home, node_id, hosts_of(old)).bundle)
    if output == "json":
        print_json({"replaced": [str(path) for path in replaced]})
        return
    click.echo(f"{plural(len(replaced), 'certificate')} replaced:")
    for path in replaced:
        click.echo(f"  {path}")
