"""Scenario files: a story as commands with the exact output each of them has.

    # What happens, in plain words.
    # ? A question for the reader, to be asked before the output is shown.
    fetch 102 times=2
    ----
    102 -> 103 fetch offset=5 last-epoch=0 | diverging epoch=0 end-offset=3 | 102: truncate 5 -> 3

A command is one line; its output ends at the first blank line. This module only reads and
writes the text. What a command does, and whether it exists, is known to `commands`.
"""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

SEPARATOR = "----"
SILENCE = "ok"
"""The output of a command about which there is nothing to tell."""

_OPTION = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)


class ScriptError(Exception):
    """The text is wrong, not the behaviour: the message says in which line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class Directive(NamedTuple):
    """One command with the lines before it and the output it is expected to have."""

    line: int
    preamble: tuple[str, ...]
    command: str
    expected: tuple[str, ...]

    @property
    def comment(self) -> str:
        """The story up to this command, without its questions."""
        return "\n".join(text for text in self._remarks() if not text.startswith("? "))

    @property
    def question(self) -> str:
        return "\n".join(text[2:] for text in self._remarks() if text.startswith("? "))

    def _remarks(self) -> list[str]:
        return [_remark(line) for line in self.preamble if line.strip()]


class Script(NamedTuple):
    directives: tuple[Directive, ...]
    epilogue: tuple[str, ...] = ()
    """Remarks after the last command."""

    @property
    def title(self) -> str:
        """The first line of the story."""
        comment = self.directives[0].comment if self.directives else ""
        return comment.split("\n", 1)[0]


def parse_script(text: str) -> Script:
    lines = text.splitlines()
    directives: list[Directive] = []
    preamble: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if _is_remark(line):
            preamble.append(line)
            position += 1
            continue
        if position + 1 >= len(lines) or lines[position + 1] != SEPARATOR:
            raise ScriptError(
                position + 1, f"{line!r} is not followed by {SEPARATOR!r}: is it a comment?"
            )
        expected = _until_blank(lines, position + 2)
        directives.append(Directive(position + 1, tuple(preamble), line.strip(), expected))
        preamble = []
        position += 2 + len(expected)
    return Script(tuple(directives), tuple(preamble))


def render_script(script: Script, outputs: Sequence[Sequence[str]]) -> str:
    """The same story with these outputs: what `--rewrite` puts into the file."""
    assert len(outputs) == len(script.directives), (len(outputs), len(script.directives))
    lines: list[str] = []
    for directive, output in zip(script.directives, outputs, strict=True):
        assert all(output), f"{directive.command} printed a blank line"
        lines += [*directive.preamble, directive.command, SEPARATOR, *output]
    lines += script.epilogue
    return "\n".join(lines) + "\n"


def _is_remark(line: str) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith(("#", "? "))


def _remark(line: str) -> str:
    return line.strip().removeprefix("#").strip()


def _until_blank(lines: list[str], start: int) -> tuple[str, ...]:
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    return tuple(lines[start:end])


class Arguments:
    """What follows a command's name. A handler takes what it knows; the rest is an error."""

    def __init__(self, words: Sequence[str], options: dict[str, str]) -> None:
        self._words = list(words)
        self._options = dict(options)

    def word(self, what: str) -> str:
        if not self._words:
            raise ArgumentError(f"{what} is missing")
        return self._words.pop(0)

    def optional_word(self) -> str | None:
        return self._words.pop(0) if self._words else None

    def words(self) -> list[str]:
        """All that are left."""
        words, self._words = self._words, []
        return words

    def choice(self, what: str, choices: Sequence[str]) -> str:
        word = self.word(what)
        if word not in choices:
            raise ArgumentError(f"{what} is one of {', '.join(choices)}, not {word!r}")
        return word

    def flag(self, name: str) -> bool:
        """A word that is there or not."""
        if name in self._words:
            self._words.remove(name)
            return True
        return False

    def option(self, name: str, default: str | None = None) -> str | None:
        return self._options.pop(name, default)

    def number(self, name: str, default: int) -> int:
        value = self._options.pop(name, None)
        return default if value is None else number(name, value)

    def options(self) -> dict[str, str]:
        """All that are left."""
        options, self._options = self._options, {}
        return options

    def leftovers(self) -> list[str]:
        return [*self._words, *(f"{name}={value}" for name, value in self._options.items())]


class ArgumentError(Exception):
    """A command cannot be carried out as it is written."""


def split_command(text: str) -> tuple[str, Arguments]:
    """`fetch 102 times=3` → "fetch", with one word and one option."""
    try:
        parts = shlex.split(text)
    except ValueError as broken:
        raise ArgumentError(f"cannot read {text!r}: {broken}") from broken
    if not parts:
        raise ArgumentError("a command is missing")
    words: list[str] = []
    options: dict[str, str] = {}
    for part in parts[1:]:
        match = _OPTION.fullmatch(part)
        if match is None:
            words.append(part)
        elif match[1] in options:
            raise ArgumentError(f"{match[1]}= is given twice")
        else:
            options[match[1]] = match[2]
    return parts[0], Arguments(words, options)


def number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ArgumentError(f"{name} is a number, not {value!r}") from None


def list_of(name: str, value: str) -> list[str]:
    """`(A,B)` → ["A", "B"]; `()` is empty."""
    if not value.startswith("(") or not value.endswith(")"):
        raise ArgumentError(f"{name} is a list like (A,B), not {value!r}")
    inside = value[1:-1].strip()
    return [item.strip() for item in inside.split(",")] if inside else []


def duration_ms(value: str) -> int:
    """`500ms`, `30s`, `5min`."""
    match = re.fullmatch(r"([0-9]+)(ms|s|min)", value)
    if match is None:
        raise ArgumentError(f"a duration is like 500ms, 30s or 5min, not {value!r}")
    return int(match[1]) * {"ms": 1, "s": 1000, "min": 60_000}[match[2]]
