"""Where the authority of a cluster lies."""

from pathlib import Path
from typing import Any, Final

import click

from tidelog.cli.asking import Asking
from tidelog.cli.failure import CommandError
from tidelog.cli.local.home import running_cluster
from tidelog.cluster.layout import secure_home
from tidelog.secure.authority import Authority, NoAuthority
from tidelog.secure.home import SecureHome

HOME: Final = "tidelog-secure"


def home_option(function: Any) -> Any:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=HOME,
        show_default=True,
        help="Where the authority and the files of its users lie.",
    )(function)


def existing_home(directory: Path) -> SecureHome:
    """CommandError if no authority lies there."""
    try:
        Authority.load(directory)
    except NoAuthority as reason:
        raise CommandError(
            f"there is no authority in {directory}",
            why=str(reason),
            advice="tidelog secure init, or --dir with the directory that it made",
        ) from None
    return SecureHome(directory)


def home_of_cluster(asking: Asking, directory: Path | None) -> SecureHome:
    """Where the login files of its users lie. CommandError if there is no certificate to trust."""
    home = SecureHome(directory or Path(HOME))
    if directory is None and not asking.names_cluster:
        running = running_cluster()
        home = home if running is None else secure_home(running.directory)
    if not home.authority_file.exists():
        raise CommandError(
            f"there is no {home.authority_file}",
            why="clients of a secured cluster trust the certificate that is in it",
            advice="tidelog up --secure, tidelog secure init, or --dir with its directory",
        )
    return home


def cannot_write(directory: Path, reason: OSError) -> CommandError:
    why = (reason.strerror or str(reason)).lower()
    return CommandError(f"cannot write {directory}", why=why, advice="another --dir")
