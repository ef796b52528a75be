"""The commands of one kind of stage: their names, their usage and their errors."""

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidelog.sim.scenario.narrator import Narrator
from tidelog.sim.scenario.script import SILENCE, ArgumentError, Arguments, split_command


class Playable(Protocol):
    """What every stage can do, whatever is on it."""

    @property
    def narrator(self) -> Narrator: ...

    def settle(self) -> None:
        """Let everything follow that needs no time."""


StageT = TypeVar("StageT", bound=Playable)
Handler = Callable[[StageT, Arguments], None]


class Command(NamedTuple, Generic[StageT]):
    name: str
    usage: str
    handler: Handler[StageT]

    @property
    def help(self) -> str:
        return (self.handler.__doc__ or "").strip()


class CommandTable(Generic[StageT]):
    def __init__(self) -> None:
        self.commands: dict[str, Command[StageT]] = {}

    def command(self, name: str, usage: str = "") -> Callable[[Handler[StageT]], Handler[StageT]]:
        """The function below is what `name` does; it prints through the stage's narrator."""

        def register(handler: Handler[StageT]) -> Handler[StageT]:
            assert name not in self.commands, f"{name} is registered twice"
            self.commands[name] = Command(name, f"{name} {usage}".rstrip(), handler)
            return handler

        return register

    def perform(self, stage: StageT, text: str) -> list[str]:
        """Carry out one command line and return what it prints."""
        name, arguments = split_command(text)
        found = self.commands.get(name)
        if found is None:
            known = ", ".join(sorted(self.commands))
            raise ArgumentError(f"unknown command {name!r}: known are {known}")
        try:
            found.handler(stage, arguments)
            leftovers = arguments.leftovers()
            if leftovers:
                raise ArgumentError(f"unknown argument {leftovers[0]!r}")
        except ArgumentError as wrong:
            raise ArgumentError(f"{name}: {wrong}; usage: {found.usage}") from wrong
        stage.settle()
        return stage.narrator.take_lines() or [SILENCE]
