"""`tidelog registry add-user`"""

from pathlib import Path

import click

from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import shared_options


@click.command(name="add-user")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("name")
@click.option("--password", prompt=True, hide_input=True, help="Asked for if not given.")
@shared_options
def command(*, file: Path, name: str, password: str) -> None:
    """Add somebody to the users of a registry, or give them another password.

    \b
    Examples:
      tidelog registry add-user users.txt ann
      tidelog registry start --host 0.0.0.0 --users users.txt
    """
    from tidelog.registry.users import WrongUsers, line_for, read_users

    try:
        line = line_for(name, password)
        if file.exists() and file.read_text("utf-8").strip():
            read_users(file)
    except (ValueError, WrongUsers) as reason:
        raise CommandError(
            f"{name} is not added", why=str(reason), advice="another name or file", code=USAGE
        ) from None
    before = file.read_text("utf-8").splitlines() if file.exists() else []
    kept = [each for each in before if each.partition(":")[0] != name]
    made = file.with_name(f"{file.name}.new")
    made.touch(mode=0o600)
    made.write_text("\n".join([*kept, line]) + "\n", "utf-8")
    made.replace(file)
    click.echo(f"{name} is in {file}; a registry reads it at its start", err=True)
