"""Where the authority of a cluster lies."""

from pathlib import Path
from typing import Any, Final

import click

from tidelog.cli.failure import CommandError
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
