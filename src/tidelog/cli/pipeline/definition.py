"""A pipeline as a file: TOML whose keys are the options of the command of its kind.

Nothing is defined here: the file becomes the words of a command line, which the command then reads
as it always does.
"""

import importlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.pipeline.launching import check_launch
from tidelog.survey.refusal import nearest

KINDS: Final = {
    "archive": "tidelog.cli.pipeline.archive",
    "upsert": "tidelog.cli.pipeline.upsert",
    "mirror": "tidelog.cli.pipeline.mirror",
    "health": "tidelog.cli.pipeline.health",
}
VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
NOT_KEYS: Final = frozenset(("help",))

Value = str | int | float | bool | list[Any] | dict[str, Any]
Resolve = Callable[[str], str | None]
"""From the name of a variable to its value; None: it is not set."""


class Definition(NamedTuple):
    """One file that could be read."""

    path: Path
    text: str
    kind: str
    values: Mapping[str, Value]
    """By key, with references to the environment as they are written."""

    @property
    def command(self) -> click.Command:
        command: click.Command = importlib.import_module(KINDS[self.kind]).command
        return command

    @property
    def variables(self) -> list[str]:
        """Of the environment, that it refers to."""
        written = " ".join(map(str, self.values.values()))
        return sorted(set(VARIABLE.findall(written)))

    def words(self, resolve: Resolve) -> list[str]:
        """The command line, without the name of the command."""
        params = keys_of(self.command)
        found: list[str] = []
        topics: list[str] = []
        for key, value in self.values.items():
            whole = _filled(value, partial(self._resolved, key, resolve))
            if isinstance(params[key], click.Argument):
                topics += self._texts(key, whole)
            else:
                found += self._option(key, whole, params[key])
        return [*found, "--", *topics] if topics else found

    def context(self, words: list[str], parent: click.Context | None) -> click.Context:
        """The command with its options, judged one by one."""
        try:
            return self.command.make_context(self.kind, list(words), parent=parent)
        except click.BadParameter as error:
            names = error.param.opts if error.param is not None else []
            key = next((each.removeprefix("--") for each in names if each.startswith("--")), None)
            if key is None or key not in self.values:
                raise
            raise self.wrong(key, f"{key}: {error.message}") from None

    def check(self, context: click.Context) -> None:
        """Whatever can be judged without asking anybody."""
        check_launch(context.params)
        importlib.import_module(KINDS[self.kind]).check_given(context.params)

    def wrong(
        self, key: str, why: str, *, what: str = "wrong value", advice: str | None = None
    ) -> CommandError:
        where = f"{self.path}:{line_of(self.text, key)}"
        usual = f"tidelog pipeline {self.kind} --help"
        return CommandError(f"{where}: {what}", why=why, advice=advice or usual, code=USAGE)

    def _option(self, key: str, value: Value, param: click.Parameter) -> Iterator[str]:
        option = f"--{key}"
        if isinstance(param, click.Option) and param.is_flag:
            if not isinstance(value, bool):
                raise self.wrong(key, f"{key} is true or false")
            if value:
                yield option
            return
        if isinstance(value, dict):
            if key != "conf":
                raise self.wrong(key, f"{key} is no table")
            value = [f"{name}={_word(each)}" for name, each in value.items()]
        texts = self._texts(key, value)
        if len(texts) > 1 and not param.multiple:
            raise self.wrong(key, f"{key} has one value")
        for text in texts:
            yield f"{option}={text}"

    def _texts(self, key: str, value: Value) -> list[str]:
        given = value if isinstance(value, list) else [value]
        if any(isinstance(each, bool | list | dict) for each in given):
            raise self.wrong(key, f"{key} is text or a number, or a list of them")
        return [str(each) for each in given]

    def _resolved(self, key: str, resolve: Resolve, text: str) -> str:
        def filled(found: re.Match[str]) -> str:
            value = resolve(found[1])
            if value is None:
                raise self.wrong(
                    key,
                    f"{key} needs {found[0]}, which is not set",
                    what="no such variable",
                    advice=f"{found[1]}=… in the environment",
                )
            return value

        return VARIABLE.sub(filled, text)


def read_definition(path: Path) -> Definition:
    """CommandError with the line of what is wrong."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{path} cannot be read", why=str(error), advice="another file", code=USAGE
        ) from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CommandError(
            f"{path} is no TOML", why=str(error), advice="see docs/pipelines.md", code=USAGE
        ) from None
    kind = values.pop("kind", None)
    if kind not in KINDS:
        near = nearest(str(kind), list(KINDS))
        guess = f'kind is "{kind}"; did you mean "{near}"?' if near else "kind is not one of them"
        where = f"{path}:{line_of(text, 'kind')}" if kind is not None else str(path)
        raise CommandError(
            f"{where}: no such kind of pipeline" if kind is not None else f"{path} has no kind",
            why=guess if kind is not None else "it says what the file is about",
            advice=" or ".join(f'kind = "{each}"' for each in KINDS),
            code=USAGE,
        )
    definition = Definition(path, text, kind, values)
    known = keys_of(definition.command)
    for key in values:
        if key not in known:
            near = nearest(key, list(known))
            guess = f'did you mean "{near}"?' if near else f"known: {', '.join(known)}"
            raise definition.wrong(key, guess, what=f'no key "{key}"')
    return definition


def keys_of(command: click.Command) -> dict[str, click.Parameter]:
    """What a file of this kind may say: long names of options, and names of arguments."""
    found: dict[str, click.Parameter] = {}
    for param in command.params:
        if isinstance(param, click.Argument):
            assert param.name is not None, param
            found[param.name] = param
            continue
        long = [each.removeprefix("--") for each in param.opts if each.startswith("--")]
        found.update((name, param) for name in long if name not in NOT_KEYS)
    return found


def line_of(text: str, key: str) -> int:
    """Where a key of the file is given; TOML's own reader does not tell."""
    named = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*(=|\]|\.)""")
    lines = text.splitlines()
    return next((at for at, line in enumerate(lines, 1) if named.match(line)), 1)


def _filled(value: Value, fill: Callable[[str], str]) -> Value:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, list):
        return [_filled(each, fill) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each, fill) for name, each in value.items()}
    return value


def _word(value: Any) -> str:
    """As Spark's settings write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
