"""The plays of a console: each has an id, and what nobody looks at any more goes."""

import secrets
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog.lab.catalogue import Story
from tidelog.lab.documents import Document
from tidelog.lab.play import PlayError

KEPT_SECONDS = 30 * 60
ID_BYTES = 9


class Playing(Protocol):
    """A play, wherever it is played."""

    def forward(self) -> None: ...
    def back(self) -> None: ...
    def goto(self, step: int) -> None: ...
    def perform(self, command: str) -> None: ...
    def fork(self) -> "Playing": ...
    def close(self) -> None: ...
    def document(self) -> Document: ...


class UnknownPlayError(LookupError):
    """There was never a play of this id, or it is gone."""


class Kept(NamedTuple):
    play: Playing
    used_s: float


class Shelf:
    """Belongs to one thread, as its plays do."""

    def __init__(
        self,
        begin: Callable[[Story, int], Playing],
        now_s: Callable[[], float],
        *,
        limit: int = 16,
        prefix: str = "",
    ) -> None:
        """`prefix` begins the id of each play."""
        self._begin = begin
        self._now_s = now_s
        self._limit = limit
        self._prefix = prefix
        self._kept: dict[str, Kept] = {}
        """The one that was used last stands last."""

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, story: Story, step: int) -> Document:
        self._make_room()
        return self._put(self._new_id(), self._begin(story, step))

    def show(self, play_id: str) -> Document:
        return self._put(play_id, self._find(play_id))

    def forward(self, play_id: str) -> Document:
        return self._do(play_id, lambda play: play.forward())

    def back(self, play_id: str) -> Document:
        return self._do(play_id, lambda play: play.back())

    def goto(self, play_id: str, step: int) -> Document:
        return self._do(play_id, lambda play: play.goto(step))

    def perform(self, play_id: str, command: str) -> Document:
        return self._do(play_id, lambda play: play.perform(command))

    def fork(self, play_id: str) -> Document:
        other = self._find(play_id).fork()
        self._make_room(keep=play_id)
        return self._put(self._new_id(), other)

    def remove(self, play_id: str) -> None:
        self._find(play_id).close()
        del self._kept[play_id]

    def close(self) -> None:
        for play_id in list(self._kept):
            self.remove(play_id)

    def _new_id(self) -> str:
        return self._prefix + secrets.token_urlsafe(ID_BYTES)

    def _find(self, play_id: str) -> Playing:
        self._drop_old()
        kept = self._kept.get(play_id)
        if kept is None:
            raise UnknownPlayError(play_id)
        return kept.play

    def _do(self, play_id: str, act: Callable[[Playing], None]) -> Document:
        play = self._find(play_id)
        try:
            act(play)
        except PlayError:
            self._put(play_id, play)  # it is looked at all the same
            raise
        return self._put(play_id, play)

    def _put(self, play_id: str, play: Playing) -> Document:
        self._kept.pop(play_id, None)
        self._kept[play_id] = Kept(play, self._now_s())
        return {"id": play_id, **play.document()}

    def _make_room(self, keep: str | None = None) -> None:
        self._drop_old()
        while len(self._kept) >= self._limit:
            self.remove(next(each for each in self._kept if each != keep))

    def _drop_old(self) -> None:
        oldest_s = self._now_s() - KEPT_SECONDS
        for play_id, kept in list(self._kept.items()):
            if kept.used_s < oldest_s:
                kept.play.close()
                del self._kept[play_id]
