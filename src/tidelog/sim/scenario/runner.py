"""Running scenario files: all at once, one command at a time, or as a test."""

import logging
from difflib import unified_diff
from typing import NamedTuple

from tidelog.host.locks import new_lock
from tidelog.sim.scenario import commands, quorum
from tidelog.sim.scenario.script import (
    ArgumentError,
    Directive,
    Script,
    ScriptError,
    parse_script,
    render_script,
)
from tidelog.sim.scenario.stage import Stage


def stage_for(script: Script) -> Stage | quorum.QuorumStage:
    """The first command says where the story is played."""
    first = script.directives[0].command.split() if script.directives else []
    return quorum.QuorumStage() if first[:1] == [quorum.OPENING] else Stage()


class Step(NamedTuple):
    """One command that was carried out."""

    comment: str
    command: str
    output: tuple[str, ...]
    question: str = ""
    expected: tuple[str, ...] = ()
    line: int = 0


class Player:
    """Plays a script command by command. `stage` may be looked at between two steps."""

    def __init__(self, script: Script | str) -> None:
        self.script = parse_script(script) if isinstance(script, str) else script
        self.stage = stage_for(self.script)
        self.position = 0

    @property
    def upcoming(self) -> Directive | None:
        """The command that `next` will carry out; None at the end."""
        directives = self.script.directives
        return directives[self.position] if self.position < len(directives) else None

    def next(self) -> Step | None:
        """Carry out one command. None when the story is over."""
        directive = self.upcoming
        if directive is None:
            return None
        self.position += 1
        try:
            output = self.perform(directive.command)
        except ArgumentError as wrong:
            raise ScriptError(directive.line, str(wrong)) from wrong
        return Step(
            directive.comment,
            directive.command,
            output,
            directive.question,
            directive.expected,
            directive.line,
        )

    def perform(self, command: str) -> tuple[str, ...]:
        """Free play: a command that is not in the script. ArgumentError if it makes no sense."""
        stage = self.stage
        with _QUIET:
            if isinstance(stage, quorum.QuorumStage):
                return tuple(quorum.TABLE.perform(stage, command))
            return tuple(commands.perform(stage, command))

    def close(self) -> None:
        """Its processes end."""
        self.stage.close()


class _Quiet:
    """What a node writes for operators is not part of the story. Plays may run in several threads,
    and the journal belongs to all of them: it is on again when the last command is done."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._commands = 0
        self._before = logging.NOTSET

    def __enter__(self) -> None:
        with self._lock:
            if not self._commands:
                self._before = logging.root.manager.disable
                logging.disable(logging.CRITICAL)
            self._commands += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._commands -= 1
            if not self._commands:
                logging.disable(self._before)


_QUIET = _Quiet()


def run_script(text: str) -> list[Step]:
    player = Player(text)
    steps: list[Step] = []
    try:
        while (step := player.next()) is not None:
            steps.append(step)
    finally:
        player.close()
    return steps


def rewritten(text: str) -> str:
    """The same script with the output its commands have now."""
    return render_script(parse_script(text), [step.output for step in run_script(text)])


def difference(text: str, name: str = "scenario") -> str:
    """A readable diff between what is expected and what happens; empty when they agree."""
    lines = unified_diff(
        text.splitlines(),
        rewritten(text).splitlines(),
        f"{name} (expected)",
        f"{name} (actual)",
        n=6,
        lineterm="",
    )
    return "\n".join(lines)
