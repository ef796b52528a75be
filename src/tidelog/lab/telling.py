"""Telling a story in a terminal: plain text, a step at a time, each checked as it is told."""

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import NamedTuple

from tidelog.lab.catalogue import Chapter, Story, find
from tidelog.sim.scenario import Player, Step
from tidelog.sim.scenario.script import SILENCE

Tell = Callable[[str], None]
"""Takes one line of the story."""
Ask = Callable[[str], bool]
"""Shown a question before a step is revealed; False ends the story there."""

WIDTH = 98
DRAWING = "picture"
"""The command whose output speaks for itself."""


def run(name: str, *, tell: Tell, ask: Ask | None = None) -> list[str]:
    """Play a story; what did not come out as told, nothing when all did."""
    return tell_story(find(name), tell=tell, ask=ask)


class Revealed(NamedTuple):
    """A command that was carried out."""

    command: str
    lines: tuple[str, ...]
    problem: str = ""
    """How it came out otherwise than told."""
    free: bool = False
    """It is not part of the story."""


Reveal = Callable[[Chapter], Sequence[Revealed]]
"""Plays one chapter."""


def tell_story(story: Story, *, tell: Tell, ask: Ask | None = None) -> list[str]:
    """On the simulator."""
    player = Player(story.script)
    try:
        return tell_with(
            story,
            lambda chapter: [reveal_next(player) for _ in chapter.directives],
            tell=tell,
            ask=ask,
        )
    finally:
        player.close()


def tell_with(story: Story, reveal: Reveal, *, tell: Tell, ask: Ask | None = None) -> list[str]:
    """Wherever it is played."""
    broken: list[str] = []
    tell(story.title)
    _tell_wrapped(tell, "shows: ", " · ".join(story.sources))
    for number, chapter in enumerate(story.chapters, 1):
        place = f"{number}/{len(story.chapters)}"
        tell("")
        _tell_words(chapter, place, tell, asks=ask is not None)
        if ask is not None and not ask(f"step {place}  {chapter.question}".rstrip()):
            return broken
        for revealed in reveal(chapter):
            tell("")
            _tell_revealed(revealed, tell)
            broken += [revealed.problem] if revealed.problem else []
    tell("")
    _tell_wrapped(tell, "what you saw: ", story.saw)
    tell(f"next: {'   ·   '.join(story.next_commands)}")
    return broken


def reveal_next(player: Player) -> Revealed:
    step = player.next()
    assert step is not None, "the script ended before the story"
    problem = difference_of(step) if step.output != step.expected else ""
    return Revealed(step.command, step.output, problem)


def _tell_words(chapter: Chapter, place: str, tell: Tell, *, asks: bool) -> None:
    """The sentence; and the question, unless it is asked."""
    head = f"{place:>5}  "
    if chapter.sentence or asks:
        _tell_wrapped(tell, head, chapter.sentence)
        head = " " * len(head)
    if chapter.question and not asks:
        _tell_wrapped(tell, f"{head}? ", chapter.question)


def _tell_revealed(revealed: Revealed, tell: Tell) -> None:
    if revealed.command == DRAWING:
        for line in revealed.lines:
            tell(f"       {line}")
    else:
        _tell_wrapped(tell, "       ▸ ", revealed.command)
        for line in revealed.lines:
            if line == SILENCE:
                continue
            first, *rest = line.split(" | ")
            tell(f"         {first}")
            for part in rest:
                tell(f"           └ {part}")
    if revealed.problem:
        tell(f"       ✗ {revealed.problem}")


def difference_of(step: Step) -> str:
    """The first line that is not as told."""
    pairs = zip((*step.expected, "nothing"), (*step.output, "nothing"), strict=False)
    for told, actual in pairs:
        if told != actual:
            return f"line {step.line}, {step.command}: told {told!r}, came out {actual!r}"
    raise AssertionError(f"{step.command} came out as told")


def _tell_wrapped(tell: Tell, head: str, text: str) -> None:
    lines = wrap(text, WIDTH - len(head)) or [""]
    tell(f"{head}{lines[0]}".rstrip())
    for line in lines[1:]:
        tell(f"{' ' * len(head)}{line}")
