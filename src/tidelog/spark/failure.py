"""How the connector says no, and how its words are found again in what Spark makes of them."""

import re

_MARK = "tidelog: "
_WORDS = re.compile(re.escape(_MARK) + r"([^\n]+)")


class TidelogError(Exception):
    """One line: what is wrong and why, then what to do about it.

    Spark wraps errors of Python sources into its own, with traces of two languages around them.
    The line begins with a mark by which `words_of` finds it again.
    """

    def __init__(self, what: str, advice: str) -> None:
        self.what = what
        self.advice = advice
        super().__init__(f"{_MARK}{what}; {advice}")

    def __reduce__(self) -> tuple[type["TidelogError"], tuple[str, str]]:
        return type(self), (self.what, self.advice)


class InvalidOption(TidelogError):  # noqa: N818 - says what an option is, not that code failed
    """An option that does not exist, contradicts another, or has a value that makes no sense."""


class DataLoss(TidelogError):  # noqa: N818
    """Records that were to be read are no longer there."""


def words_of(error: BaseException) -> str | None:
    """Our own line within an error of Spark's, without the mark; None if it is not ours."""
    found = _WORDS.search(str(error))
    return found[1].strip() if found else None
