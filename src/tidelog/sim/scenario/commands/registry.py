"""How a command gets its name, its usage and its errors."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.sim.scenario.script import SILENCE, ArgumentError, Arguments, split_command
from tidelog.sim.scenario.stage import Stage

Handler = Callable[[Stage, Arguments], None]


class Command(NamedTuple):
    name: str
    usage: str
    handler: Handler

    @property
    def help(self) -> str:
        return (self.handler.__doc__ or "").strip()


COMMANDS: dict[str, Command] = {}


def command(name: str, usage: str = "") -> Callable[[Handler], Handler]:
    """The function below is what `name` does; it prints through the stage's narrator."""

    def register(handler: Handler) -> Handler:
        assert name not in COMMANDS, f"{name} is registered twice"
        COMMANDS[name] = Command(name, f"{name} {usage}".rstrip(), handler)
        return handler

    return register


def perform(stage: Stage, text: str) -> list[str]:
    """Carry out one command line and return what it prints."""
    name, arguments = split_command(text)
    found = COMMANDS.get(name)
    if found is None:
        raise ArgumentError(f"unknown command {name!r}: known are {', '.join(sorted(COMMANDS))}")
    try:
        found.handler(stage, arguments)
        leftovers = arguments.leftovers()
        if leftovers:
            raise ArgumentError(f"unknown argument {leftovers[0]!r}")
    except ArgumentError as wrong:
        raise ArgumentError(f"{name}: {wrong}; usage: {found.usage}") from wrong
    stage.settle()
    return stage.narrator.take_lines() or [SILENCE]
