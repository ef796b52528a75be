"""The few calls the command line makes to the lab; the lab itself is `tidelog.lab`."""

import importlib
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from tidelog.cli.failure import CommandError, unknown_name

RECONCILE = "reconcile"
"""The story the demo begins with: T00, from a failover to three equal logs."""

Tell = Callable[[str], None]
"""Takes one line of the story."""
Ask = Callable[[str], bool]
"""Shown a question before a step is revealed; False ends the story there."""


class Story(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...


class Lab(Protocol):
    def stories(self) -> Sequence[Story]:
        """In the order in which they should be read."""
        ...

    def run(self, name: str, *, tell: Tell, ask: Ask | None = None) -> list[str]:
        """Play a story; what did not come out as told, nothing when all did."""
        ...


def load_lab() -> Lab:
    try:
        return cast(Lab, importlib.import_module("tidelog.lab"))
    except ModuleNotFoundError as reason:
        if reason.name != "tidelog.lab":
            raise
        raise CommandError(
            "no lab here",
            why="this installation was built without tidelog.lab",
            advice="tidelog sim run --seed 1",
        ) from None


def find_story(lab: Lab, name: str) -> Story:
    stories = list(lab.stories())
    for story in stories:
        if story.name == name:
            return story
    raise unknown_name("story", name, [s.name for s in stories], advice="tidelog lab list")
