"""Why a process cannot start, or cannot continue."""


class CannotGoOn(Exception):  # noqa: N818 - it says what it means
    """The process must end. The message says why, `advice` what to do about it."""

    def __init__(self, why: str, *, advice: str) -> None:
        super().__init__(why)
        self.advice = advice
