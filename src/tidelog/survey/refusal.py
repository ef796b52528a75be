"""How a survey says that what was asked for makes no sense: what, why, what to try."""

from difflib import get_close_matches


class NotPossible(Exception):  # noqa: N818 - it names what is so
    """The same four fields for a command and for the console."""

    def __init__(self, what: str, *, why: str, advice: str, is_usage: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.advice = advice
        self.is_usage = is_usage
        """It was written wrongly, whatever the cluster is like."""


def nearest(name: str, known: list[str]) -> str | None:
    """One that is spelled much like it."""
    matches = get_close_matches(name, known, n=1, cutoff=0.5)
    return matches[0] if matches else None
