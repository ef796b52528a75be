"""What holds for one invocation whatever the command: colour, output format, debugging."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TextIO

import click


@dataclass(slots=True)
class Session:
    as_json: bool = False
    debug: bool = False
    colour: bool = True

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> "Session":
        """Read before the parser runs: its own errors must respect these too."""
        return cls(
            as_json=_wants_json(arguments),
            debug="--debug" in arguments,
            colour="--no-color" not in arguments and not os.environ.get("NO_COLOR"),
        )

    def styled(self, text: str, colour: str, *, stream: TextIO | None = None) -> str:
        """The text in a colour, or as it is where colour is off or would not be seen."""
        if not self.colour or not (stream or sys.stdout).isatty():
            return text
        return click.style(text, fg=colour)


def _wants_json(arguments: Sequence[str]) -> bool:
    if "-ojson" in arguments or "--output=json" in arguments:
        return True
    return any(
        option in ("-o", "--output") and value == "json" for option, value in pairwise(arguments)
    )


def current() -> Session:
    """The session of the command that is running."""
    context = click.get_current_context(silent=True)
    session = context.find_root().obj if context is not None else None
    return session if isinstance(session, Session) else Session()
