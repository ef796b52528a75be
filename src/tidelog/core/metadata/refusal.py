"""A request that the controller cannot grant, with the code and the reason for its sender."""

from tidelog.core.errors import Error


class RefusedError(Exception):
    """The asker's fault or bad luck, never ours: a bug of ours is an assertion."""

    def __init__(self, error: Error, reason: str) -> None:
        assert error != Error.NONE, f"refused without an error: {reason}"
        super().__init__(f"{error.name}: {reason}")
        self.error = error
        self.reason = reason


class PlacementError(RefusedError):
    """No assignment can satisfy what was asked for."""


class ReassignmentError(RefusedError):
    """The replicas of a partition cannot be changed that way."""
