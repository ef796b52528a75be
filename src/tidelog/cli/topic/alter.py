"""`tidelog topic alter` and `tidelog topic add-partitions`"""

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.topic.create import key_values
from tidelog.client import Admin, Client
from tidelog.client.admin import TOPIC_RESOURCE
from tidelog.survey.topics import named_topic


@click.command(name="alter")
@click.argument("name")
@click.option("-s", "--set", "given", metavar="KEY=VALUE", multiple=True, help="A new value.")
@click.option("-d", "--delete", "deleted", metavar="KEY", multiple=True, help="Back to default.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@asks_cluster
@output_option
@shared_options
def command(
    *,
    asking: Asking,
    name: str,
    given: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
    output: str,
) -> None:
    """Change settings of the topic NAME.

    \b
    Examples:
      tidelog topic alter orders --set retention.ms=86400000
      tidelog topic alter orders --delete retention.ms --dry-run
    """
    changes: dict[str, str | None] = dict(key_values(given, option="--set"))
    changes.update(dict.fromkeys(deleted))
    if not changes:
        raise CommandError(
            "nothing to change",
            why="neither --set nor --delete was given",
            advice=f"tidelog topic alter {name} --set retention.ms=86400000",
            code=USAGE,
        )

    async def alter(client: Client) -> None:
        await named_topic(client, name)
        await Admin(client).alter_configs(TOPIC_RESOURCE, name, changes, validate_only=dry_run)

    asking.run(alter)
    if output == "json":
        print_json({"topic": name, "changes": changes, "changed": not dry_run})
        return
    for key, value in changes.items():
        told = "back to its default" if value is None else f"= {value}"
        click.echo(f"{name}: {key} {told}{' (not done: --dry-run)' if dry_run else ''}")


@click.command(name="add-partitions")
@click.argument("name")
@click.option("--to", "total", type=click.IntRange(min=1), help="How many it shall have.")
@click.option("--more", type=click.IntRange(min=1), help="How many it shall get.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it could be done.")
@asks_cluster
@output_option
@shared_options
def add_partitions(
    *, asking: Asking, name: str, total: int | None, more: int | None, dry_run: bool, output: str
) -> None:
    """Give the topic NAME more partitions. Keys will map to other ones from then on.

    \b
    Examples:
      tidelog topic add-partitions orders --to 6
      tidelog topic add-partitions orders --more 2
    """
    if (total is None) == (more is None):
        raise CommandError(
            "how many partitions is not clear",
            why="one of --to and --more is needed, not both",
            advice=f"tidelog topic add-partitions {name} --more 1",
            code=USAGE,
        )

    async def add(client: Client) -> tuple[int, int]:
        before = len((await named_topic(client, name)).partitions)
        wanted = total if total is not None else before + (more or 0)
        await Admin(client).add_partitions(name, wanted, validate_only=dry_run)
        return before, wanted

    before, after = asking.run(add)
    if output == "json":
        document = {"topic": name, "before": before, "partitions": after, "changed": not dry_run}
        print_json(document)
        return
    done = "could have" if dry_run else "has"
    click.echo(f"{name} {done} {plural(after, 'partition')}, it had {before}")
