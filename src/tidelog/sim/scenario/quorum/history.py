"""What a quorum promises, written down while a story is played; `audit` reads it back."""

from __future__ import annotations

from tidelog.core.types import LogEntry


class History:
    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], list[int]] = {}
        self.leaders: dict[int, list[int]] = {}
        self._committed: dict[int, LogEntry] = {}
        self.conflicts: list[str] = []

    def on_vote_sent(self, voter: int, epoch: int, candidate: int) -> None:
        candidates = self._votes.setdefault((voter, epoch), [])
        if candidate not in candidates:
            candidates.append(candidate)

    def on_elected(self, node: int, epoch: int) -> None:
        self.leaders.setdefault(epoch, []).append(node)

    def on_committed(self, node: int, entry: LogEntry) -> None:
        known = self._committed.setdefault(entry.offset, entry)
        if known != entry:
            self.conflicts.append(f"{node} commits another entry at offset={entry.offset}")

    @property
    def committed(self) -> list[LogEntry]:
        return [self._committed[offset] for offset in sorted(self._committed)]

    @property
    def double_votes(self) -> list[str]:
        return [
            f"{voter} voted for {' and '.join(map(str, candidates))} in epoch {epoch}"
            for (voter, epoch), candidates in self._votes.items()
            if len(candidates) > 1
        ]
