"""What a command prints: happenings become notes, notes of one speaker become one line."""

from itertools import groupby
from operator import itemgetter


class Narrator:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._notes: list[tuple[str, str]] = []

    def note(self, speaker: str, text: str) -> None:
        """Something `speaker` did; part of the sentence that is being told."""
        self._notes.append((speaker, text))

    def take_notes(self) -> list[str]:
        """`A: high-watermark 3 -> 4, answered produce x`, one entry per change of speaker."""
        told = [
            f"{speaker}: {', '.join(text for _, text in notes)}"
            for speaker, notes in groupby(self._notes, itemgetter(0))
        ]
        self._notes.clear()
        return told

    def line(self, text: str) -> None:
        """A line of its own, after everything noted so far."""
        self._lines += self.take_notes()
        self._lines.append(text)

    def take_lines(self) -> list[str]:
        self._lines += self.take_notes()
        lines, self._lines = self._lines, []
        return lines
