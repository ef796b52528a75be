"""What a thread of the lab does: stories and plays, with errors as the console tells them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from tidelog import lab
from tidelog.cluster import state as states
from tidelog.cluster.nodes import LocalNodes
from tidelog.console.lab_seeds import Document
from tidelog.console.refusal import Refused, bad_input
from tidelog.lab.live_play import CLUSTER, LivePlay
from tidelog.lab.play import SIMULATOR, Play, PlayError
from tidelog.lab.scenes import why_not
from tidelog.lab.shelf import Shelf, UnknownPlayError

ON_CLUSTER = "cluster-"
"""How ids of plays on a real cluster begin."""


class LabWork:
    """Belongs to one thread: the simulator's, or that of the cluster in `directory`."""

    def __init__(self, directory: Path | None = None, *, has_cluster: bool = False) -> None:
        self._directory = directory
        self._has_cluster = has_cluster
        self.leaving = threading.Event()
        """Set by whoever closes us, from another thread: nothing is waited for any more."""
        if directory is None:
            self._plays = Shelf(Play, time.monotonic)
        else:
            self._plays = Shelf(self._begin_live, time.monotonic, limit=1, prefix=ON_CLUSTER)

    def _begin_live(self, story: lab.Story, step: int) -> LivePlay:
        assert self._directory is not None, "no cluster"
        state = states.load(self._directory)
        if state is None or not state.is_running:
            raise PlayError("the cluster does not run", "tidelog up --lab")
        return LivePlay(LocalNodes(self._directory, state), story, step, leaving=self.leaving)

    def close(self) -> None:
        self._plays.close()

    def stories(self) -> Document:
        where = [SIMULATOR, *([CLUSTER] if self._has_cluster else [])]
        return {"on": where, "stories": [self._story_document(each) for each in lab.stories()]}

    def _story_document(self, story: lab.Story) -> Document:
        reason = why_not(story)
        plays = self._has_cluster and reason is None
        return {
            "name": story.name,
            "title": story.title,
            "sources": list(story.sources),
            "saw": story.saw,
            "steps": len(story.chapters),
            "question_count": sum(bool(chapter.question) for chapter in story.chapters),
            "on": [SIMULATOR, *([CLUSTER] if plays else [])],
            "only_sim": reason,
        }

    def begin(self, name: str, step: int) -> Document:
        try:
            story = lab.find(name[:100])
        except lab.UnknownStoryError as unknown:
            raise Refused(HTTPStatus.NOT_FOUND, str(unknown), "GET /api/lab") from None
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
