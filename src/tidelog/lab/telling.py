"""Telling a story in a terminal: plain text, a step at a time, each checked as it is told."""

from collections.abc import Callable
from textwrap import wrap

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


def tell_story(story: Story, *, tell: Tell, ask: Ask | None = None) -> list[str]:
    player = Player(story.script)
    broken: list[str] = []
    tell(story.title)
    _tell_wrapped(tell, "shows: ", " · ".join(story.sources))
    for number, chapter in enumerate(story.chapters, 1):
        place = f"{number}/{len(story.chapters)}"
        tell("")
        _tell_words(chapter, place, tell, asks=ask is not None)
        if ask is not None and not ask(f"step {place}  {chapter.question}".rstrip()):
            return broken
        broken += _play(player, chapter, tell)
    tell("")
    _tell_wrapped(tell, "what you saw: ", story.saw)
    tell(f"next: {'   ·   '.join(story.next_commands)}")
    return broken


def _tell_words(chapter: Chapter, place: str, tell: Tell, *, asks: bool) -> None:
    """The sentence; and the question, unless it is asked."""
    head = f"{place:>5}  "
    if chapter.sentence or asks:
        _tell_wrapped(tell, head, chapter.sentence)
        head = " " * len(head)
    if chapter.question and not asks:
        _tell_wrapped(tell, f"{head}? ", chapter.question)


def _play(player: Player, chapter: Chapter, tell: Tell) -> list[str]:
    broken: list[str] = []
    for _ in chapter.directives:
        step = player.next()
        assert step is not None, "the script ended before the story"
        tell("")
        _tell_step(step, tell)
        if step.output != step.expected:
            problem = difference_of(step)
            tell(f"       ✗ {problem}")
            broken.append(problem)
    return broken


def _tell_step(step: Step, tell: Tell) -> None:
    if step.command == DRAWING:
        for line in step.output:
            tell(f"       {line}")
        return
    _tell_wrapped(tell, "       ▸ ", step.command)
    for line in step.output:
        if line == SILENCE:
            continue
        first, *rest = line.split(" | ")
        tell(f"         {first}")
        for part in rest:
            tell(f"           └ {part}")


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
