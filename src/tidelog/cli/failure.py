"""How a command says that it could not do what was asked: what, why, what to try."""

import json
from typing import Final

from tidelog.survey.refusal import NotPossible, nearest

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_REACHED: Final = 4
VIOLATION: Final = 5
INTERRUPTED: Final = 130


class CommandError(NotPossible):
    """Ends a command with an exit code and four fields, the same as text and as json."""

    def __init__(self, what: str, *, why: str, advice: str, code: int = ERROR) -> None:
        super().__init__(what, why=why, advice=advice, is_usage=code == USAGE)
        self.code = code


def unknown_name(kind: str, name: str, known: list[str], *, advice: str) -> CommandError:
    """Wrong usage: there is no such thing, but perhaps one that is spelled much like it."""
    near = nearest(name, known)
    guess = f'did you mean "{near}"?' if near else f"known: {', '.join(known)}"
    return CommandError(
        f'no {kind} "{name}"',
        why=guess,
        advice=advice,
        code=USAGE,
    )


def render(command: str, error: CommandError, *, as_json: bool) -> str:
    where = f"{command}: " if command else ""
    if as_json:
        return json.dumps(
            {"command": command, "error": error.what, "why": error.why, "try": error.advice},
            ensure_ascii=False,
        )
    return f"error: {where}{error.what}\n  why: {error.why}\n  try: {error.advice}"
