"""`tidelog group delete`"""

from typing import Any, NamedTuple

import click

from tidelog.cli.asking import Asking, asks_cluster, refused
from tidelog.cli.failure import ERROR, OK, CommandError, render
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import JSON, Column, show
from tidelog.cli.usage import as_command_error
from tidelog.client import Client, KafkaError
from tidelog.client.groups import GroupAdmin
from tidelog.core.errors import Error
from tidelog.survey.group_seek import refuse_members
from tidelog.survey.groups import named_group
from tidelog.survey.refusal import NotPossible

COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("OFFSETS", "offsets"),
    Column("RESULT", "result"),
)


class Outcome(NamedTuple):
    group: str
    state: str | None
    offsets: int
    error: CommandError | None
    deleted: bool


@click.command(name="delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP…")
@click.option("-y", "--yes", is_flag=True, help="Do it.")
@click.option("--dry-run", is_flag=True, help="Only the plan, as without --yes.")
@asks_cluster
@table_option
@shared_options
@click.pass_context
def command(context: click.Context, /, *, asking: Asking, **given: Any) -> None:
    """Delete groups that have no members, with everything they have committed.

    \b
    Examples:
      tidelog group delete billing
      tidelog group delete billing audit --yes

    Prints the plan, and does nothing without --yes.
    """
    doing, output = given["yes"] and not given["dry_run"], given["output"]

    async def work(client: Client) -> list[Outcome]:
        return [await delete_one(client, name, doing=doing) for name in given["names"]]

    outcomes = asking.run(work)
    rows = [
        {
            "group": each.group,
            "state": each.state,
            "offsets": each.offsets,
            "result": "refused" if each.error else "deleted" if each.deleted else "would go",
        }
        for each in outcomes
    ]
    show(output, rows, COLUMNS, rows)
    for each in outcomes:
        if each.error is not None:
            told = render(f"group delete {each.group}", each.error, as_json=output == JSON)
            click.echo(told, err=True)
    if not doing and not all(each.error for each in outcomes):
        click.echo("nothing is deleted yet: the same with --yes does it", err=True)
    context.exit(ERROR if any(each.error for each in outcomes) else OK)


async def delete_one(client: Client, name: str, *, doing: bool) -> Outcome:
    admin = GroupAdmin(client)
    state, offsets = None, 0
    try:
        group = await named_group(client, name)
        state = group.state
        offsets = len(await admin.committed(name, coordinator=group.coordinator))
        refuse_members(group, "would be left without offsets")
        if doing:
            await admin.delete(name)
    except KafkaError as error:
        if error.error == Error.NON_EMPTY_GROUP:
            told = refused(error, advice=f"tidelog group describe {name}")
            return Outcome(name, state, offsets, told, deleted=False)
        return Outcome(name, state, offsets, refused(error), deleted=False)
    except NotPossible as error:
        return Outcome(name, state, offsets, as_command_error(error), deleted=False)
    return Outcome(name, state, offsets, None, deleted=doing)
