"""What the thread of the lab does: stories and plays, with errors as the console tells them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from tidelog import lab
from tidelog.console.lab_seeds import Document
from tidelog.console.refusal import Refused, bad_input
from tidelog.lab.play import SIMULATOR, Play, PlayError
from tidelog.lab.shelf import Shelf, UnknownPlayError


class LabWork:
    """Belongs to that thread."""

    def __init__(self) -> None:
        self._plays = Shelf(Play, time.monotonic)

    def close(self) -> None:
        self._plays.close()

    def stories(self) -> Document:
        return {"on": [SIMULATOR], "stories": [_story_document(each) for each in lab.stories()]}

    def begin(self, name: str, on: object, step: int) -> Document:
        try:
            story = lab.find(name[:100])
        except lab.UnknownStoryError as unknown:
            raise Refused(HTTPStatus.NOT_FOUND, str(unknown), "GET /api/lab") from None
        if on != SIMULATOR:
            raise bad_input("this console plays on the simulator", '"on": "sim"')
        with _refusals():
            return self._plays.begin(story, step)

    def show(self, play: str) -> Document:
        with _refusals():
            return self._plays.show(play)

    def step(self, play: str) -> Document:
        with _refusals():
            return self._plays.forward(play)

    def back(self, play: str) -> Document:
        with _refusals():
            return self._plays.back(play)

    def goto(self, play: str, step: int) -> Document:
        with _refusals():
            return self._plays.goto(play, step)

    def fork(self, play: str) -> Document:
        with _refusals():
            return self._plays.fork(play)

    def perform(self, play: str, command: str) -> Document:
        with _refusals():
            return self._plays.perform(play, command)

    def remove(self, play: str) -> Document:
        with _refusals():
            self._plays.remove(play)
        return {"id": play}


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except UnknownPlayError:
        error = "there is no such play: plays are kept for 30 minutes, and 16 of them"
        raise Refused(HTTPStatus.NOT_FOUND, error, "begin anew") from None
    except PlayError as reason:
        raise bad_input(str(reason), reason.advice) from None


def _story_document(story: lab.Story) -> Document:
    return {
        "name": story.name,
        "title": story.title,
        "sources": list(story.sources),
        "steps": len(story.chapters),
        "question_count": sum(bool(chapter.question) for chapter in story.chapters),
        "on": [SIMULATOR],
    }
