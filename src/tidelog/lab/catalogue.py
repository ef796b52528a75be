"""The stories that come with Tidelog, in the order in which they should be read.

A story file begins with its title, then `source:` and the sections of the source documents it
shows. It ends with `saw:`, the story in one line, and `next:`, commands to try.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from tidelog.sim.scenario import Directive, Script, parse_script

SOURCE, SAW, NEXT = "source:", "saw:", "next:"


class Chapter(NamedTuple):
    """A sentence, perhaps a question, and the commands that belong to it."""

    sentence: str
    question: str
    directives: tuple[Directive, ...]


class Story(NamedTuple):
    name: str
    title: str
    sources: tuple[str, ...]
    saw: str
    next_commands: tuple[str, ...]
    script: Script
    chapters: tuple[Chapter, ...]


class UnknownStoryError(LookupError):
    """There is no story of this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known = tuple(story.name for story in stories())
        super().__init__(f"no story {name!r}: there are {', '.join(self.known)}")


@cache
def stories() -> tuple[Story, ...]:
    """Every story, in reading order."""
    folder = files("tidelog.lab").joinpath("stories")
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(_read(file) for file in found if file.name.endswith(".txt"))


def find(name: str) -> Story:
    for story in stories():
        if story.name == name:
            return story
    raise UnknownStoryError(name)


def _read(file: Traversable) -> Story:
    number, _, name = file.name.removesuffix(".txt").partition("-")
    assert number.isdigit(), f"{file.name} has no number"
    return parse_story(name, file.read_text("utf-8"))


def parse_story(name: str, text: str) -> Story:
    script = parse_script(text)
    assert script.directives, f"{name} has no steps"
    opening = script.directives[0].comment.split("\n")
    sources = [line.removeprefix(SOURCE) for line in opening if line.startswith(SOURCE)]
    endings = [line.strip().removeprefix("#").strip() for line in script.epilogue]
    story = Story(
        name,
        opening[0],
        _items(sources),
        " ".join(line.removeprefix(SAW).strip() for line in endings if line.startswith(SAW)),
        _items([line.removeprefix(NEXT) for line in endings if line.startswith(NEXT)]),
        script,
        _chapters(script),
    )
    assert story.sources, f"{name} names no section of the source documents"
    assert story.saw, f"{name} does not say what was to be seen"
    return story


def _items(lines: list[str]) -> tuple[str, ...]:
    return tuple(item.strip() for line in lines for item in line.split(";") if item.strip())


def _chapters(script: Script) -> tuple[Chapter, ...]:
    """A command without words of its own belongs to the chapter before it."""
    chapters: list[Chapter] = []
    for directive in script.directives:
        if directive.comment or directive.question:
            sentence = _sentence(directive, opening=not chapters)
            chapters.append(Chapter(sentence, directive.question, (directive,)))
        else:
            assert chapters, "a story begins with its title"
            chapters[-1] = chapters[-1]._replace(directives=(*chapters[-1].directives, directive))
    return tuple(chapters)


def _sentence(directive: Directive, *, opening: bool) -> str:
    lines = directive.comment.split("\n")
    if opening:
        lines = [line for line in lines[1:] if not line.startswith(SOURCE)]
    return " ".join(" ".join(lines).split())
