"""A play: a story on the simulator that one steps through, back and forth, and may leave.

The simulator is deterministic, so going back is playing again from the start. A play belongs to one
thread at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from tidelog.lab import documents, free_play
from tidelog.lab.catalogue import Story
from tidelog.lab.documents import Document
from tidelog.lab.telling import Revealed, reveal_next
from tidelog.sim.scenario import ArgumentError, Player
from tidelog.sim.scenario.quorum import QuorumStage

SIMULATOR = "sim"


class PlayError(Exception):
    """What was asked for cannot be done; the play is as it was before."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem)
        self.advice = advice


class Play:
    """`step` steps of the story were played, and after them `free` commands beyond it."""

    on = SIMULATOR

    def __init__(self, story: Story, step: int = 0) -> None:
        self.story = story
        self._begin()
        self.goto(step)

    def _begin(self) -> None:
        self.step = 0
        self.free: list[str] = []
        self._revealed: list[Revealed] = []
        self._new_from = 0
        self._player = Player(self.story.script)

    def close(self) -> None:
        self._player.close()

    # -- moving

    def forward(self) -> None:
        """One step of the story."""
        if self.free:
            raise PlayError(
                "this play has left the story: its next step would not come out as told",
                f"go to step {self.step} first, which takes the free commands back",
            )
        if self.is_over:
            raise PlayError("the story is over", "go back, or try a command of your own")
        before = self.step
        try:
            self._play_chapter()
        except Exception as reason:
            self._play_again(before, [])
            raise _stage_failed(reason) from reason

    def back(self) -> None:
        """The last free command, or else the last step, has not happened."""
        if self.free:
            self._play_again(self.step, self.free[:-1])
        elif self.step:
            self._play_again(self.step - 1, [])
        else:
            raise PlayError("this is the beginning", "take a step")

    def goto(self, step: int) -> None:
        if not 0 <= step <= len(self.story.chapters):
            raise PlayError(
                f"there is no step {step}", f"a step from 0 to {len(self.story.chapters)}"
            )
        if self.free or step < self.step:
            self._play_again(step, [])
        while self.step < step:
            self.forward()

    def perform(self, command: str) -> None:
        """A command that is not in the story."""
        if len(self.free) >= free_play.MOST_COMMANDS:
            raise PlayError(
                f"a play takes {free_play.MOST_COMMANDS} free commands", "go back, or begin anew"
            )
        if not self.step:
            raise PlayError("there is nothing on the stage yet", "take the first step")
        free = list(self.free)
        try:
            self._perform(command)
        except ArgumentError as wrong:
            # It may have done half of its work.
            self._play_again(self.step, free)
            raise PlayError(str(wrong), self._advice()) from wrong
        except Exception as reason:
            self._play_again(self.step, free)
            raise _stage_failed(reason) from reason

    def fork(self) -> Play:
        """Another play that stands where this one does."""
        other = Play(self.story)
        try:
            other._play_again(self.step, self.free)
        except BaseException:
            other.close()
            raise
        return other

    @property
    def is_over(self) -> bool:
        return self.step == len(self.story.chapters)

    def _play_again(self, step: int, free: list[str]) -> None:
        commands = list(free)
        self.close()
        self._begin()
        while self.step < step:
            self._play_chapter()
        for command in commands:
            self._perform(command)

    def _play_chapter(self) -> None:
        revealed: list[Revealed] = []
        self._new_from = self._messages_passed()
        for _ in self.story.chapters[self.step].directives:
            revealed.append(reveal_next(self._player))
        self._revealed = revealed
        self.step += 1

    def _perform(self, command: str) -> None:
        command = free_play.bounded(command)
        new_from = self._messages_passed()
        lines = self._player.perform(command)
        self._new_from = new_from
        self.free.append(command)
        self._revealed.append(Revealed(command, lines, free=True))

    def _messages_passed(self) -> int:
        stage = self._player.stage
        return 0 if isinstance(stage, QuorumStage) else stage.passed.count

    def _advice(self) -> str:
        offered = free_play.offers(self._player.stage)
        return f"for example: {offered[0].text}" if offered else "take a step"

    # -- what it shows

    def document(self) -> Document:
        shown = {
            **self._stage_documents(),
            "free": bool(self.free),
            "commands": [offer._asdict() for offer in free_play.offers(self._player.stage)],
        }
        return play_document(self.story, self.step, self._revealed) | {"on": self.on} | shown

    def _stage_documents(self) -> Document:
        """Stories of the quorum have no partition, and those of a partition show no quorum."""
        stage = self._player.stage
        if isinstance(stage, QuorumStage):
            return {"partition": None, "quorum": documents.quorum_document(stage)}
        partition = documents.partition_document(stage, self._new_from)
        return {"partition": partition, "quorum": None}

    def digest(self) -> str:
        """Two plays that show the same have the same one."""
        text = json.dumps(self.document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def play_document(story: Story, step: int, revealed: Sequence[Revealed]) -> Document:
    """What every play shows, wherever it is played."""
    present = story.chapters[step - 1] if step else None
    upcoming = None if step == len(story.chapters) else story.chapters[step]
    return {
        "story": story.name,
        "title": story.title,
        "step": step,
        "steps": len(story.chapters),
        "sentence": "" if present is None else present.sentence,
        "question": (present.question or None) if present is not None else None,
        "revealed": [_revealed_document(each) for each in revealed],
        "next_sentence": None if upcoming is None else upcoming.sentence,
        "next_question": (upcoming.question or None) if upcoming is not None else None,
        "over": upcoming is None,
        "saw": story.saw,
        "next_commands": list(story.next_commands),
        "link": f"/lab/{story.name}?step={step}",
        "error": next((each.problem for each in revealed if each.problem), None),
    }


def _revealed_document(revealed: Revealed) -> Document:
    return {
        "command": revealed.command,
        "lines": list(revealed.lines),
        "ok": not revealed.problem,
        "free": revealed.free,
    }


def _stage_failed(reason: Exception) -> PlayError:
    text = str(reason) or type(reason).__name__
    return PlayError(f"the stage cannot do that: {text}", "another command")
