"""A seed in the browser: a console without a cluster that knows how the seed went."""

import threading
import webbrowser
from contextlib import suppress
from typing import Any

import click

from tidelog.cli.failure import UNREACHABLE, CommandError
from tidelog.console.lab_seeds import Seed, finished
from tidelog.console.place import simulator
from tidelog.console.serving import Address, CannotListen, listen, serve

LOOPBACK = "127.0.0.1"


def open_seed(number: int, mutant: str | None, report: dict[str, Any]) -> None:
    """Until Ctrl-C. `report` is what `-o json` prints of the seed."""
    seed = Seed(number, mutant)
    try:
        listening = listen(Address(LOOPBACK, 0))
    except (CannotListen, OSError) as reason:
        raise CommandError(
            "the console cannot listen",
            why=str(reason),
            advice="the same command without --open",
            code=UNREACHABLE,
        ) from None

    def ready(url: str) -> None:
        address = url + seed.link
        click.echo(f"open: {address}   (Ctrl-C ends it)")
        # A browser may stay in the foreground, and it is this process that it asks.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    with suppress(KeyboardInterrupt):
        serve(simulator((seed, finished(seed, report))), listening, None, ready)
